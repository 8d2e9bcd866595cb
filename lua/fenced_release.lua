-- with guard.lua
-- and of whoever has a place in the queue ARGV[4] that, ARGV[5] '' to leave it, or for how long
-- it waits by now, in us
-- 1 released, 2 and another waits, 0 gone; where another's value is, one more 0 tells that the
-- place could not be taken; the fence is raised wherever that may be
local value = redis.call('GET', KEYS[1])
if not ahead then
  -- with raise.lua
end
local mine = value == ARGV[1]
if mine then
  redis.call('DEL', KEYS[1])
end
local place, waited
if #ARGV > 4 then
  place, waited = ARGV[4], ARGV[5]
end
-- with place.lua
if mine then
  -- with call.lua
  return (awaited and '2 ' or '1 ') .. time[1] .. ' ' .. time[2] .. ' ' .. known
elseif value then
  -- with held.lua
  there[4] = not entered and 0 or nil
  return there
end
return '0 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
