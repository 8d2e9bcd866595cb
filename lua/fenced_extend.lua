-- with guard.lua
-- and ARGV[6] '1': store the token again if the key is missing
-- Returns code 1: extended, 0: gone, 2: recreated (no vote).
-- Never shortens the life of a key, as plain_extend.lua. It also raises the fence.
local key = KEYS[1]
-- with look.lua
local value = found
-- with may_vote.lua
if value == ARGV[1] then
  if redis.call('PTTL', key) < tonumber(ARGV[4]) then
    redis.call('PEXPIRE', key, ARGV[4])
  end
  -- with store_fence.lua
  return '1 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
elseif value then
  -- with held.lua
  return there
elseif ARGV[6] ~= '1' then
  return '0 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
end
-- with late.lua
redis.call('SET', key, ARGV[1], 'PX', ARGV[4])
-- with store_fence.lua
return '2 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
