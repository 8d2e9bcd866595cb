-- KEYS[1] resource: deletes its value, of a semaphore the slot
-- Returns 0 if it was free, or {value, pttl} of what was deleted.
local key = KEYS[1]
-- with look.lua
if found then
  local pttl = redis.call('PTTL', key)
  redis.call('DEL', key)
  local queue, intents, waits, only_readers, freed = key .. '!queue', key .. '!intent', false, false, ' 0'
  local semaphore, slot = string.match(key, '^(.+)!(%d+)$')
  local digits = string.match(found .. '@', '^[pf]:?(SLOT[a-z2-7]+)@') or ''
  if slot and #digits == 32 then
    queue, freed = semaphore .. '!queue', ' ' .. slot
  end
  -- with notify.lua
  -- with notify_observers.lua
  return {found, pttl}
end
return 0
