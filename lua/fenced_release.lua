-- with guard.lua
-- and, if the client has a queue entry, ARGV[4] the entry, ARGV[5] '' to remove it, or the
-- time that the client has waited so far, in us, to add it, ARGV[6] for how long it keeps
-- readers out, in ms, or ''
-- Returns code 1: released, 2: released and another client waits, 0: gone. If the key holds
-- another value, {value, pttl, now}; a further 0 means that the queue could not be updated.
-- It raises the fence in every case, unless the fence is too far ahead of the clock.
-- A full node lets a script take memory only after it has written: the key is deleted first.
local key = KEYS[1]
-- with look.lua
local value = found
local mine = value == ARGV[1]
if mine then
  redis.call('DEL', key)
end
-- with end_fenced_release.lua
