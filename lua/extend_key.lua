-- part: reads ahead, fence, known, now, stored, time; sets code, found, key, kind, known, marked, value
-- Extends a key that has the token, or stores it again, and raises its fence; otherwise it ends the
-- script. Never shortens the life of a key, as plain_extend.lua.
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
