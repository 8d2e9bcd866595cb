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
if left then
  local rest = last[2] - clock
  redis.pcall('PEXPIRE', key, rest > 0 and rest or 1)
end
