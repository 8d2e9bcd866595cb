-- with guard.lua
-- and ARGV[6] the number of fences to reserve, ARGV[7] how long the reader has waited, in us
-- Returns code 1: acquired. The fence is larger than the stored one by at least ARGV[6].
local key, ttl, waited = KEYS[1], ARGV[4], ARGV[7]
-- with begin_acquire.lua
-- with look_at_readers.lua
value = value or mine and ARGV[1]
local holder = value
-- with turn.lua
if holder then
  -- with held.lua
  return there
elseif value then
  return {value, pttl, now}
elseif ahead then
  return redis.error_reply('AHEAD of the clock')
end
local latest = clock + tonumber(ARGV[3])
-- with cut_readers.lua
-- with store_reader.lua
redis.call('SET', KEYS[2], known, 'PX', FENCE_LIFE)
return '1 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
