-- part: reads fence, now, stored; sets ahead, fence, known
-- Makes the fence of an acquire larger than the stored one by at least the number of fences that
-- the lock reserves.
known = ARGV[2]
if stored + tonumber(ARGV[6]) > fence then
  fence = stored + tonumber(ARGV[6])
  known = string.format('%.0f', fence)
  ahead = fence > now + AHEAD_MAX
end
