-- KEYS[1] resource: removes whoever holds it
-- 0 it was free, {value, pttl} what was removed
local value = redis.call('GET', KEYS[1])
if value then
  local pttl = redis.call('PTTL', KEYS[1])
  redis.call('DEL', KEYS[1])
  local queue, place, waited = KEYS[1] .. '!queue'
  -- with call.lua
  return {string.sub(value, 1, 128), pttl}
end
return 0
