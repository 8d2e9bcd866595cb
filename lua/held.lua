-- part: reads key, now, value; sets pttl, there
-- The reply if the key holds another value.
local pttl = redis.call('PTTL', key)
-- A longer TTL than any fenced lock has means that the clock was set back. A client with
-- another marker, as a release may have, does not know the longest TTL of this deployment.
if pttl > tonumber(ARGV[3]) and string.find(value, '^[fgs]') then
  -- with check_marker.lua
  local member = value
  -- with digits.lua
  if marked and #(string.match(whole, '^f:([A-Z]*[a-z2-7]+)@') or '') == 32 then
    redis.call('PEXPIRE', key, ARGV[3])
    pttl = tonumber(ARGV[3])
  elseif marked and #digits == 32 then
    local clock = (now - now % 1000) / 1000
    local latest = clock + tonumber(ARGV[3])
    -- with cut_readers.lua
    local last = redis.pcall('ZRANGE', key, '-1', '-1', 'WITHSCORES')
    if last[2] then
      pttl = tonumber(last[2]) > clock and last[2] - clock + 1000 or 1
      redis.call('PEXPIRE', key, pttl)
    end
  end
end
local there = {value, pttl, now}
