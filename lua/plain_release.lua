-- with queue.lua
-- KEYS[1] resource, ARGV[1] token, and of whoever goes on waiting ARGV[2] a place in the queue,
-- ARGV[3] for how long by now, in us; '' leaves it
-- 1 released, 2 and another waits, 0 gone, {value, pttl} another's, and then 0 if the place
-- could not be taken
local value = redis.call('GET', KEYS[1])
local mine = value == ARGV[1]
if mine then
  redis.call('DEL', KEYS[1])
end
local entered = not ARGV[2] or pcall(enter, ARGV[2], ARGV[3])
if mine then
  pcall(call_first)
  return awaited and 2 or 1
elseif value then
  return {string.sub(value, 1, 128), redis.call('PTTL', KEYS[1]), not entered and 0 or nil}
end
return 0
