-- KEYS a set, ARGV[1] token, and, if the client has a queue entry, ARGV[2] the entry, ARGV[3] ''
-- to remove it, or the time that the client has waited so far, in us, to add it, ARGV[4] at
-- which key, the n-th, ARGV[5] the one that it leaves, or ''
-- Returns 1: released at all keys, 2: the same, and another client waits, 0: some were gone.
-- If a key holds another value, {value, pttl, n}; a further 0 means that the queue could not
-- be updated.
local count = #KEYS
-- with look_at_set.lua
if own[1] then
  redis.call('DEL', unpack(own))
end
local entry, waited, life = ARGV[3] and ARGV[2], ARGV[3], nil
local key, before = KEYS[tonumber(ARGV[4] or 1)], entry and KEYS[tonumber(ARGV[5])]
-- with enqueue.lua
-- with call_waiters.lua
if at then
  return {value, redis.call('PTTL', KEYS[at]), at, not entered and 0 or nil}
elseif #own < count then
  return 0
end
return awaited and 2 or 1
