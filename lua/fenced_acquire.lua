-- with guard.lua
-- and ARGV[6] the number of fences to reserve
-- Returns code 1: acquired. The fence is larger than the stored one by at least ARGV[6].
-- with begin_acquire.lua
if not ahead and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[4]) then
  redis.call('SET', KEYS[2], known, 'PX', FENCE_LIFE)
  return '1 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
end
local key = KEYS[1]
-- with look.lua
local value = found
if not value then
  return redis.error_reply('AHEAD of the clock')
end
-- with held.lua
return there
