-- KEYS[1] resource, ARGV[1] token, and, if the client has a queue entry, ARGV[2] the entry,
-- ARGV[3] '' to remove it, or the time that the client has waited so far, in us, to add it,
-- ARGV[4] for how long it keeps readers out, in ms, or ''
-- Returns 1: released, 2: released and another client waits, 0: gone, {value, pttl}: another
-- value; a further 0 means that the queue could not be updated.
local key, entry, waited, life = KEYS[1], ARGV[2], ARGV[3], ARGV[4]
-- with look_at_hash.lua
if mine then
  redis.call('HDEL', key, ARGV[1])
  -- Redisson's clients subscribe to this channel while they wait.
  local name = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
  redis.pcall('PUBLISH', 'redisson_lock__channel:' .. name, '0')
end
-- with end_release.lua
