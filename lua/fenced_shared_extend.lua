-- with guard.lua
-- and ARGV[6] '1': store the token again if the reader is missing, and, if a client that waited
-- downgrades, ARGV[7] its queue entry
-- Returns code 1: extended, 0: gone, 2: recreated (no vote). It also raises the fence.
-- A downgrade is an extension, as in shared_extend.lua.
local key, ttl, waiter = KEYS[1], ARGV[4], #ARGV == 8 and ARGV[7]
-- with look_at_readers.lua
-- with may_vote.lua
local kept = mine or writer
if value and not writer then
  -- with held.lua
  return there
elseif not kept and ARGV[6] ~= '1' then
  return '0 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
elseif not kept then
  -- with late.lua
end
local latest = clock + tonumber(ARGV[3])
-- with cut_readers.lua
-- with store_reader.lua
-- with store_fence.lua
-- with let_readers_in.lua
return (kept and '1 ' or '2 ') .. time[1] .. ' ' .. time[2] .. ' ' .. known
