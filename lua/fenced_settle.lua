-- with guard.lua
-- 1 the token is here, and the fence is at least this; 0 gone
if not marked() then
  return redis.error_reply('MARKER is another')
elseif ahead then
  return redis.error_reply('AHEAD of the clock')
elseif value == ARGV[1] then
  raise(fence)
  return {1, now, stored}
elseif value then
  return held()
end
return {0, now, stored}
