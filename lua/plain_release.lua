-- KEYS[1] resource, ARGV[1] token, and of whoever has a place in the queue ARGV[2] that,
-- ARGV[3] '' to leave it, or for how long it waits by now, in us
-- 1 released, 2 and another waits, 0 gone, {value, pttl} another's, and then 0 if the place
-- could not be taken
local value = redis.call('GET', KEYS[1])
local mine = value == ARGV[1]
if mine then
  redis.call('DEL', KEYS[1])
end
local place, waited = ARGV[2], ARGV[3]
-- with place.lua
if mine then
  -- with call.lua
  return awaited and 2 or 1
elseif value then
  return {string.sub(value, 1, 128), redis.call('PTTL', KEYS[1]), not entered and 0 or nil}
end
return 0
