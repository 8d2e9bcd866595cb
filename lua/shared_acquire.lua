-- KEYS[1] resource, ARGV[1] token, ARGV[2] ttl in ms, ARGV[3] how long the reader has waited, in
-- us
-- Returns 1: acquired, or {value, pttl}: another value, or a waiter that goes first.
local key, ttl, waited = KEYS[1], ARGV[2], ARGV[3]
local time = redis.call('TIME')
-- with look_at_readers.lua
-- An extension by another process has stored it: as SET NX, an acquire stores nothing over it.
value = value or mine and ARGV[1]
-- with turn.lua
if value then
  return {value, pttl}
end
-- with store_reader.lua
return 1
