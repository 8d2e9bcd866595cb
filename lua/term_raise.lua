-- with guard.lua
-- Returns code 1: the token is stored and the fence is at least ARGV[2]; 0: gone. As
-- fenced_raise.lua; it also stores the term.
local key = KEYS[1]
-- with look.lua
local value = found
-- with may_vote.lua
if value == ARGV[1] then
  -- with store_fence.lua
  -- with store_term.lua
  return '1 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
elseif value then
  -- with held.lua
  return there
end
return '0 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
