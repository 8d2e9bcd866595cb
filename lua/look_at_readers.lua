-- part: reads key, time; sets clock, digits, first, member, mine, value, whole, writer
-- Reads a lock that readers share, and removes those whose time is over. It is a sorted set of
-- their tokens. The score is when the time of each is over, in ms of this node's clock; the key
-- expires with the last. A sorted set without an expiry, or of other members, is another
-- program's. `first`: the first of them.
-- `mine` is the score of the token. `writer`: the key holds it as a writer's, since before a
-- downgrade. `value` is what the key holds if not readers.
local clock = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
local mine, value, writer = nil, nil, false
local first = redis.pcall('ZRANGE', key, '0', '0', 'WITHSCORES')
if first.err and string.sub(first.err, 1, 9) ~= 'WRONGTYPE' then
  return first
end
local member = first[1]
-- with digits.lua
if #digits == 32 and redis.call('PTTL', key) >= 0 then
  while first[1] and tonumber(first[2]) < clock do
    redis.call('ZREM', key, first[1])
    first = redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')
  end
  mine = tonumber(first[1] == ARGV[1] and first[2] or redis.call('ZSCORE', key, ARGV[1]) or nil)
elseif first.err or first[1] then
  -- with look.lua
  local mark = string.sub(ARGV[1], 1, 1) == 's' and 'p' or 'f'
  value, writer = found, found == mark .. string.sub(ARGV[1], 2)
end
