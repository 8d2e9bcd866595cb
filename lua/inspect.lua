-- KEYS[1] resource
-- 0 free, {value, pttl} held
local value = redis.call('GET', KEYS[1])
if value then
  return {string.sub(value, 1, 128), redis.call('PTTL', KEYS[1])}
end
return 0
