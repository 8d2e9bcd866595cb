-- part: reads key; sets expires
-- Stores the token as Redisson does, or nothing. Without an expiry the lock would never end.
redis.call('HINCRBY', key, ARGV[1], '1')
local expires = redis.pcall('PEXPIRE', key, ARGV[2])
if expires ~= 1 then
  redis.call('DEL', key)
  return expires
end
