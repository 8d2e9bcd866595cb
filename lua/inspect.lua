-- KEYS[1] resource
-- Returns 0 if it is free, or {value, pttl}.
local key = KEYS[1]
-- with look.lua
if found then
  return {string.sub(found, 1, 128), redis.call('PTTL', key)}
end
return 0
