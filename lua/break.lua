-- KEYS[1] resource: deletes its value
-- Returns 0 if it was free, or {value, pttl} of what was deleted.
local value = redis.call('GET', KEYS[1])
if value then
  local pttl = redis.call('PTTL', KEYS[1])
  redis.call('DEL', KEYS[1])
  local queue, waits = KEYS[1] .. '!queue', false
  -- with notify.lua
  return {string.sub(value, 1, 128), pttl}
end
return 0
