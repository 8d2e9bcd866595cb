-- with guard_set.lua
-- Returns code 1: the token is stored at all keys and their fences are at least ARGV[2]; 0: it
-- is gone from some.
-- with may_vote.lua
-- with look_at_set.lua
if at then
  local key = KEYS[at]
  -- with held.lua
  there[4] = at
  return there
elseif #own < count then
  return '0 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
end
-- with store_set_fence.lua
return '1 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
