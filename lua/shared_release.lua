-- KEYS[1] resource, ARGV[1] token, and, if the client has a queue entry, ARGV[2] the entry,
-- ARGV[3] '' to remove it, or the time that the client has waited so far, in us, to add it
-- Returns 1: released, 2: released, and another client waits for the free key, 0: gone,
-- {value, pttl}: what keeps a reader out; a further 0 means that the queue could not be updated.
local key, waited, life, only_readers = KEYS[1], ARGV[3], nil, false
local waiter = ARGV[2]
local entry = waiter and waiter .. ' r'
local time = redis.call('TIME')
-- with look_at_readers.lua
-- with leave_readers.lua
-- with enqueue.lua
if entry and not waits then
  -- with waits_no_more.lua
end
if not left and (released or gone and not value) then
  -- with notify.lua
  if released then
    return awaited and 2 or 1
  end
elseif released then
  return 1
end
-- with turn.lua
if value then
  return {value, pttl, not entered and 0 or nil}
end
return 0
