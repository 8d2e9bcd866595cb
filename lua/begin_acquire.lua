-- part: reads fence, now, stored; sets ahead, fence, known, marked
-- Refuses an acquire of a fenced lock on a node that may not vote, or that was delayed.
-- with check_marker.lua
if not marked then
  return redis.error_reply('MARKER is another')
end
-- with late.lua
-- Makes the fence larger than the stored one by at least the number of fences that
-- the lock reserves.
known = ARGV[2]
if stored + tonumber(ARGV[6]) > fence then
  fence = stored + tonumber(ARGV[6])
  known = string.format('%.0f', fence)
  ahead = fence > now + AHEAD_MAX
end
