-- part: reads count, fence, known, stored; sets known
-- Stores the larger one of the fence of this command and of the largest of the set, at all keys.
-- A fence of 0 is not known.
if fence > stored then
  known = ARGV[2]
end
for i = count + 1, fence > 0 and 2 * count or 0 do
  redis.call('SET', KEYS[i], known, 'PX', FENCE_LIFE)
end
