-- KEYS[1] resource
-- Returns 0 if it is free, or {value, pttl}.
local value = redis.call('GET', KEYS[1])
if value then
  return {string.sub(value, 1, 128), redis.call('PTTL', KEYS[1])}
end
return 0
