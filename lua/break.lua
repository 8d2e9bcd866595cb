-- KEYS[1] resource: deletes its value
-- Returns 0 if it was free, or {value, pttl} of what was deleted.
local key = KEYS[1]
-- with look.lua
if found then
  local pttl = redis.call('PTTL', key)
  redis.call('DEL', key)
  local queue, intents, waits, only_readers, freed = key .. '!queue', key .. '!intent', false, false, ''
  -- with notify.lua
  return {string.sub(found, 1, 128), pttl}
end
return 0
