-- with guard.lua
-- with queue.lua
-- and, before how the marker begins: ARGV[7] a place in the queue, ARGV[8] for how long by now,
-- in us; '' leaves it
-- 1 released, 2 and another waits, 0 gone; the fence is raised wherever that may be
if not ahead then
  raise(fence)
end
local mine = value == ARGV[1]
if mine then
  redis.call('DEL', KEYS[1])
end
if #ARGV > 7 then
  pcall(enter, ARGV[7], ARGV[8])
end
if mine then
  pcall(call_first)
  return {awaited and 2 or 1, now, stored}
elseif value then
  return held()
end
return {0, now, stored}
