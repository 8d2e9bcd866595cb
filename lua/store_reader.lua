-- part: reads clock, first, key, mine, ttl, value, writer; sets ends, expires, left, ms
-- Stores the token for `ttl` ms, but not for less than before. If that fails, all is as it was:
-- without an expiry the lock would never end. The key's expiry is only raised: it counts from
-- when the command began, and `clock` may be read later. First the expiry where that is
-- possible: a full node lets a script store more after a command that needs no memory.
local ends, expires = clock + tonumber(ttl), nil
local left = (first[1] or writer) and redis.call('PTTL', key) or -2
if writer then
  left = left > 0 and left or 1
  redis.call('DEL', key)
end
if (mine or writer and clock + left or 0) > ends then
  ends = mine or clock + left
end
local ms = left > ends - clock and left or ends - clock
if mine then
  expires = redis.pcall('PEXPIRE', key, ms)
end
if not mine or expires == 1 then
  expires = redis.pcall('ZADD', key, ends, ARGV[1])
end
if not mine and type(expires) == 'number' then
  expires = redis.pcall('PEXPIRE', key, ms)
end
if type(expires) == 'table' then
  if writer then
    redis.call('DEL', key)
    redis.call('SET', key, value, 'PX', left)
  elseif not mine then
    redis.pcall('ZREM', key, ARGV[1])
  end
  return expires
end
