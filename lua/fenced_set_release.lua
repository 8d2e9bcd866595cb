-- with guard_set.lua
-- and, if the client has a queue entry, ARGV[4] to ARGV[7] as ARGV[2] to ARGV[5] of
-- set_release.lua
-- Returns code 1: released at all keys, 2: the same, and another client waits, 0: some were
-- gone. If a key holds another value, {value, pttl, now, n}; a further 0 means that the queue
-- could not be updated. It raises the fences in every case, unless the fence is too far ahead of
-- the clock.
-- A full node lets a script take memory only after it has written: the key is deleted first.
-- with look_at_set.lua
if own[1] then
  redis.call('DEL', unpack(own))
end
if not ahead then
  -- with store_set_fence.lua
end
local entry, waited, life = ARGV[5] and ARGV[4], ARGV[5], nil
local key, before = KEYS[tonumber(entry and ARGV[6] or 1)], entry and KEYS[tonumber(ARGV[7])]
-- with enqueue.lua
-- with call_waiters.lua
if at then
  local key = KEYS[at]
  -- with held.lua
  there[4] = at
  there[5] = not entered and 0 or nil
  return there
end
return (#own < count and '0 ' or awaited and '2 ' or '1 ') .. time[1] .. ' ' .. time[2] .. ' ' .. known
