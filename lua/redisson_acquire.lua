-- KEYS[1] resource, ARGV[1] token, ARGV[2] ttl in ms
-- The layout of Redisson's RLock: a hash with one field, its owner; the value is how often the
-- owner has locked it.
-- Returns 1: acquired, or {value, pttl}: another value.
local key = KEYS[1]
local pttl = redis.call('PTTL', key)
if pttl ~= -2 then
  -- with look.lua
  return {found, pttl}
end
-- with store_hash.lua
return 1
