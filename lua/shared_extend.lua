-- KEYS[1] resource, ARGV[1] token, ARGV[2] ttl in ms, ARGV[3] '1': store the token again if
-- the reader is missing, and, if a client that waited downgrades, ARGV[4] its queue entry
-- Returns 1: extended, 0: gone, 2: recreated (no vote), {value, pttl}: another value.
-- A downgrade is an extension: where the key holds the token as a writer's, it becomes a reader.
local key, ttl, waiter = KEYS[1], ARGV[2], ARGV[4]
local time = redis.call('TIME')
-- with look_at_readers.lua
local kept = mine or writer
if value and not writer then
  return {value, redis.call('PTTL', key)}
elseif not kept and ARGV[3] ~= '1' then
  return 0
end
-- with store_reader.lua
-- with let_readers_in.lua
return kept and 1 or 2
