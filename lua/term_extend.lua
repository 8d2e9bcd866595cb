-- with guard.lua
-- and ARGV[6] '1': store the token again if the key is missing
-- Returns code 1: extended, 0: gone, 2: recreated (no vote). As fenced_extend.lua; it also stores
-- the term.
local key = KEYS[1]
-- with look.lua
local value = found
-- with may_vote.lua
local code = '1 '
if value and value ~= ARGV[1] then
  -- with held.lua
  return there
elseif not value then
  if ARGV[6] ~= '1' then
    return '0 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
  end
  -- with late.lua
  redis.call('SET', key, ARGV[1], 'PX', ARGV[4])
  code = '2 '
elseif redis.call('PTTL', key) < tonumber(ARGV[4]) then
  redis.call('PEXPIRE', key, ARGV[4])
end
-- with store_fence.lua
-- with store_term.lua
return code .. time[1] .. ' ' .. time[2] .. ' ' .. known
