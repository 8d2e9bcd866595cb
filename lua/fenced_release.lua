-- with guard.lua
-- with queue.lua
-- and, before how the marker begins: ARGV[7] a place in the queue, ARGV[8] for how long by now,
-- in us; '' leaves it
-- 1 released, 2 and another waits, 0 gone; where another's value is, one more 0 tells that the
-- place could not be taken; the fence is raised wherever that may be
if not ahead then
  raise(fence)
end
local mine = value == ARGV[1]
if mine then
  redis.call('DEL', KEYS[1])
end
local entered = #ARGV == 7 or pcall(enter, ARGV[7], ARGV[8])
if mine then
  pcall(call_first)
  return {awaited and 2 or 1, now, stored}
elseif value then
  local there = held()
  there[4] = not entered and 0 or nil
  return there
end
return {0, now, stored}
