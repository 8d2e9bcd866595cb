-- KEYS[1] resource, ARGV[1] token, ARGV[2] ttl in ms, ARGV[3] '1': store the token again if
-- the key is missing
-- Returns 1: extended, 0: gone, 2: recreated (no vote), {value, pttl}: another value.
-- Never shortens the life of a key: an older extension that arrives late must not undo a newer
-- one.
local key = KEYS[1]
-- with look.lua
if found == ARGV[1] then
  if redis.call('PTTL', key) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', key, ARGV[2])
  end
  return 1
elseif found then
  return {found, redis.call('PTTL', key)}
elseif ARGV[3] == '1' then
  redis.call('SET', key, ARGV[1], 'NX', 'PX', ARGV[2])
  return 2
end
return 0
