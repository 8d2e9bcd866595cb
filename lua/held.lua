-- part: reads key, now, value; sets pttl, there
-- The reply if the key holds another value.
local pttl = redis.call('PTTL', key)
-- A longer TTL than any fenced lock has means that the clock was set back. A client with
-- another marker, as a release may have, does not know the longest TTL of this deployment.
if pttl > tonumber(ARGV[3]) and string.find(value, '^[fg]:') then
  -- with check_marker.lua
  if marked then
    redis.call('PEXPIRE', key, ARGV[3])
    pttl = tonumber(ARGV[3])
  end
end
local there = {string.sub(value, 1, 128), pttl, now}
