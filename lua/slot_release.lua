-- KEYS[1] a slot, KEYS[2] the semaphore, in whose queue its clients wait; ARGV[1] token, ARGV[2]
-- how many slots there are, and, if the client has a queue entry, ARGV[3] the entry, ARGV[4] '' to
-- remove it, or the time that the client has waited so far, in us, to add it
-- Returns {code, value, pttl, free, queued}: code 1: released, 2: released and another client
-- waits, 0: gone, 3: another value; `free`: a digit for each slot, 1: it is free; queued 0: the
-- queue could not be updated.
local key, slots, entry, waited, life, only_readers = KEYS[1], ARGV[2], ARGV[3], ARGV[4], nil, false
-- with look.lua
local mine, pttl = found == ARGV[1], redis.call('PTTL', key)
if mine then
  redis.call('DEL', key)
end
key = KEYS[2]
-- with enqueue.lua
-- with free_slots.lua
local queued = entered and 1 or 0
local slot = mine and string.match(KEYS[1], '%d+$') or gone and string.find(free, '1')
if slot then
  freed = ' ' .. slot
  -- with notify.lua
  if mine then
    return {awaited and 2 or 1, '', 0, free, queued}
  end
end
return {found and 3 or 0, found or '', pttl, free, queued}
