-- KEYS a set, ARGV[1] token, ARGV[2] ttl in ms, ARGV[3] '1': store the token again at the keys
-- that are missing, if none holds another value
-- Returns 1: extended at all keys, 0: some are gone, 2: recreated (no vote), {value, pttl, n}:
-- the n-th key holds another value. Extends what it can. Never shortens the life of a key, as
-- plain_extend.lua.
local count = #KEYS
-- with look_at_set.lua
for _, mine in ipairs(own) do
  if redis.call('PTTL', mine) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', mine, ARGV[2])
  end
end
if at then
  return {value, redis.call('PTTL', KEYS[at]), at}
elseif #own == count then
  return 1
elseif ARGV[3] ~= '1' then
  return 0
end
for i = 1, count do
  redis.call('SET', KEYS[i], ARGV[1], 'NX', 'PX', ARGV[2])
end
return 2
