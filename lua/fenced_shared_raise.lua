-- with guard.lua
-- Returns code 1: the token is stored and the fence is at least ARGV[2]; 0: gone.
local key = KEYS[1]
-- with look_at_readers.lua
-- with check_marker.lua
if not marked then
  return redis.error_reply('MARKER is another')
elseif ahead then
  return redis.error_reply('AHEAD of the clock')
end
if mine or writer then
  -- with store_fence.lua
  return '1 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
elseif value then
  -- with held.lua
  return there
end
return '0 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
