-- part: reads fence, stored; sets known
-- Stores the fence of this command if it is larger.
if fence > stored then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', FENCE_LIFE)
  known = ARGV[2]
end
