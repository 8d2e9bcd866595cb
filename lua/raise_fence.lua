-- part: reads ahead, fence, known, now, stored, time; sets found, key, kind, known, marked, value
-- Raises the fence of a key that has the token; otherwise it ends the script.
local key = KEYS[1]
-- with look.lua
local value = found
-- with may_vote.lua
if not value then
  return '0 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
elseif value ~= ARGV[1] then
  -- with held.lua
  return there
end
-- with store_fence.lua
