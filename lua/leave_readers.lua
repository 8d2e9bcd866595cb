-- part: reads clock, key, mine, value, writer; sets last, left, released
-- Takes the token away, in either form. `left`: readers still hold the key.
local released = mine or writer
if writer then
  redis.call('DEL', key)
elseif mine then
  redis.call('ZREM', key, ARGV[1])
end
local last = not (value or writer) and redis.pcall('ZRANGE', key, '-1', '-1', 'WITHSCORES') or {}
local left = last[1]
-- A second more: `clock` may have been read later than the command began, and the expiry counts
-- from then.
if left and redis.call('PTTL', key) > last[2] - clock + 1000 then
  redis.pcall('PEXPIRE', key, last[2] - clock + 1000)
end
