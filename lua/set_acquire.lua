-- KEYS a set, ARGV[1] token, ARGV[2] ttl in ms
-- Returns 1: the token is stored at all keys. If a key is taken, nothing is stored: then
-- {value, pttl, n} of the first such key, the n-th.
local count = #KEYS
if redis.call('EXISTS', unpack(KEYS)) > 0 then
  -- with look_at_set.lua
  at, value = at or 1, value or ARGV[1]
  return {value, redis.call('PTTL', KEYS[at]), at}
end
local call, token, ttl = redis.call, ARGV[1], ARGV[2]
for i = 1, count do
  call('SET', KEYS[i], token, 'PX', ttl)
end
return 1
