-- part: sets ahead, count, fence, known, now, stored, time
-- The beginning of every script of a fenced set: guard.lua for `count` keys.
-- KEYS: the keys, the fence of each, and the node's marker. One fence is for all keys: `stored`
-- is the largest. The arguments and replies are those of guard.lua, but for {value, pttl, now,
-- n}: the n-th key is the first that holds another value.
local count = (#KEYS - 1) / 2
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local known, stored = '0', 0
for i = count + 1, 2 * count do
  local text = redis.call('GETRANGE', KEYS[i], '0', '23')
  if text == '' and redis.call('PTTL', KEYS[i]) == -2 then
    text = '0'
  end
  local number = tonumber(text)
  if not number or number ~= number then
    return redis.error_reply('FENCE is no number')
  elseif number > stored then
    known, stored = text, number
  end
end
local fence = tonumber(ARGV[2])
local ahead = fence > now + AHEAD_MAX
