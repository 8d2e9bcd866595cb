-- with guard.lua
-- with queue.lua
-- and, before how the marker begins, of whoever has a place in the queue ARGV[7] that, ARGV[8]
-- '' to leave it, or for how long it waits by now, in us
-- 1 released, 2 and another waits, 0 gone; where another's value is, one more 0 tells that the
-- place could not be taken; the fence is raised wherever that may be
if not ahead then
  raise(fence)
end
local mine = value == ARGV[1]
if mine then
  redis.call('DEL', KEYS[1])
end
local has_place = #ARGV > 7
local goes_on = has_place and ARGV[8] ~= ''
local entered = not has_place or pcall(enter, ARGV[7], ARGV[8])
if mine then
  if not goes_on then
    pcall(call_first)
  end
  return {awaited and 2 or 1, now, stored}
elseif value then
  local there = held()
  there[4] = not entered and 0 or nil
  return there
end
return {0, now, stored}
