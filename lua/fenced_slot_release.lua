-- with guard.lua
-- and KEYS[3] the semaphore and KEYS[4] the marker, and ARGV[4] how many slots there are, and, if
-- the client has a queue entry, ARGV[5] the entry, ARGV[6] '' to remove it, or the time that the
-- client has waited so far, in us, to add it
-- Returns {code, value, pttl, free, queued, now, fence}, as slot_release.lua. It raises the fence
-- in every case, unless the fence is too far ahead of the clock.
-- A full node lets a script take memory only after it has written: the key is deleted first.
local key, slots, life, only_readers = KEYS[1], ARGV[4], nil, false
local entry, waited = ARGV[6] and ARGV[5], ARGV[6]
-- with look.lua
local value, mine = found, found == ARGV[1]
local left = redis.call('PTTL', key)
if mine then
  redis.call('DEL', key)
elseif value then
  -- with held.lua
  left = there[2]
end
if not ahead then
  -- with store_fence.lua
end
key = KEYS[3]
-- with enqueue.lua
-- with free_slots.lua
local queued, code = entered and 1 or 0, value and 3 or 0
local slot = mine and string.match(KEYS[1], '%d+$') or gone and string.find(free, '1')
if slot then
  freed = ' ' .. slot
  -- with notify.lua
  if mine then
    code, value = awaited and 2 or 1, ''
  end
end
return {code, value or '', left, free, queued, now, tonumber(known)}
