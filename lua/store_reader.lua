-- part: reads clock, key, mine, ttl, value, writer; sets ends, expires, left
-- Stores the token for `ttl` ms, but not for less than before. If that fails, all is as it was:
-- without an expiry the lock would never end.
local ends, left = clock + tonumber(ttl), writer and redis.call('PTTL', key)
if writer then
  redis.call('DEL', key)
end
if (mine or writer and clock + left or 0) > ends then
  ends = mine or clock + left
end
local expires = redis.pcall('ZADD', key, ends, ARGV[1])
if type(expires) == 'number' then
  local last = redis.pcall('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  expires = last.err and last or redis.pcall('PEXPIRE', key, last[2] - clock)
end
if expires ~= 1 then
  if writer then
    redis.call('DEL', key)
    redis.call('SET', key, value, 'PX', left)
  elseif not mine then
    redis.pcall('ZREM', key, ARGV[1])
  end
  return expires
end
