-- with guard_set.lua
-- and ARGV[6] the number of fences to reserve
-- Returns code 1: the token is stored at all keys. The fence is larger than each stored one by
-- at least ARGV[6]. If a key is taken, nothing is stored.
-- with begin_acquire.lua
if redis.call('EXISTS', unpack(KEYS, 1, count)) > 0 then
  -- with look_at_set.lua
  at, value = at or 1, value or ARGV[1]
  local key = KEYS[at]
  -- with held.lua
  there[4] = at
  return there
elseif ahead then
  return redis.error_reply('AHEAD of the clock')
end
for i = 1, count do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[4])
  redis.call('SET', KEYS[count + i], known, 'PX', FENCE_LIFE)
end
return '1 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
