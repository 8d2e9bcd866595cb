-- part: reads key; sets found, kind
-- The holder of the key: a string, of which at most 129 bytes are read, one more than a token
-- has; of another type what names its holder: the only field of a hash, the first member of a
-- sorted set, otherwise the type. An empty string is a holder, too. `kind`: the type, if it is no
-- string.
local kind, found = nil, redis.pcall('GETRANGE', key, '0', '128')
if found == '' then
  found = redis.call('PTTL', key) ~= -2 and found
elseif found.err then
  if string.sub(found.err, 1, 9) ~= 'WRONGTYPE' then
    return found
  end
  local names = {}
  kind = redis.pcall('TYPE', key).ok
  if kind == 'hash' and redis.pcall('HLEN', key) == 1 then
    names = redis.pcall('HKEYS', key)
  elseif kind == 'zset' then
    names = redis.pcall('ZRANGE', key, '0', '0')
  end
  found = string.sub(names[1] or 'a ' .. (kind or 'value of another type'), 1, 129)
end
