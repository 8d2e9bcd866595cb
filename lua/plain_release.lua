-- KEYS[1] resource, ARGV[1] token
-- 1 released, 0 gone, {value, pttl} another's
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 1
elseif value then
  return {string.sub(value, 1, 128), redis.call('PTTL', KEYS[1])}
end
return 0
