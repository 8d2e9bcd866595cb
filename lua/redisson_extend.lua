-- KEYS[1] resource, ARGV[1] token, ARGV[2] ttl in ms, ARGV[3] '1': store the token again if
-- the key is missing
-- Returns 1: extended, 0: gone, 2: recreated (no vote), {value, pttl}: another value.
-- Never shortens the life of a key, as plain_extend.lua.
local key = KEYS[1]
-- with look_at_hash.lua
if mine then
  if redis.call('PTTL', key) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', key, ARGV[2])
  end
  return 1
elseif value then
  return {value, redis.call('PTTL', key)}
elseif ARGV[3] == '1' then
  -- with store_hash.lua
  return 2
end
return 0
