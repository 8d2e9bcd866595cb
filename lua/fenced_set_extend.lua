-- with guard_set.lua
-- and ARGV[6] '1': store the token again at the keys that are missing, if none holds another value
-- Returns code 1: extended at all keys, 0: some are gone, 2: recreated (no vote).
-- Extends what it can, as set_extend.lua. It also raises the fences.
-- with may_vote.lua
-- with look_at_set.lua
for _, mine in ipairs(own) do
  if redis.call('PTTL', mine) < tonumber(ARGV[4]) then
    redis.call('PEXPIRE', mine, ARGV[4])
  end
end
if at then
  local key = KEYS[at]
  -- with held.lua
  there[4] = at
  return there
elseif #own == count then
  -- with store_set_fence.lua
  return '1 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
elseif ARGV[6] ~= '1' then
  return '0 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
end
-- with late.lua
for i = 1, count do
  redis.call('SET', KEYS[i], ARGV[1], 'NX', 'PX', ARGV[4])
end
-- with store_set_fence.lua
return '2 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
