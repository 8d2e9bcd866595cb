-- with guard.lua
-- and, if the client has a queue entry, ARGV[4] the entry, ARGV[5] '' to remove it, or the
-- time that the client has waited so far, in us, to add it
-- Returns code 1: released, 2: released, and another client waits for the free key, 0: gone. If
-- the key holds another value, {value, pttl, now}; a further 0 means that the queue could not be
-- updated. It raises the fence in every case, unless the fence is too far ahead of the clock.
-- A full node lets a script take memory only after it has written: the key is deleted first.
local key, waited, life, only_readers = KEYS[1], ARGV[5], nil, false
local waiter = ARGV[5] and ARGV[4]
local entry = waiter and waiter .. ' r'
-- with look_at_readers.lua
-- with leave_readers.lua
if not ahead then
  -- with store_fence.lua
end
-- with enqueue.lua
if entry and not waits then
  -- with waits_no_more.lua
end
if not left and (released or gone and not value) then
  -- with notify.lua
  if released then
    return (awaited and '2 ' or '1 ') .. time[1] .. ' ' .. time[2] .. ' ' .. known
  end
elseif released then
  return '1 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
elseif value then
  -- with held.lua
  there[4] = not entered and 0 or nil
  return there
end
-- with turn.lua
if value then
  return {value, pttl, now, not entered and 0 or nil}
end
return '0 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
