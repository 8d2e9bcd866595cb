-- part: sets ahead, fence, known, now, stored, time
-- The beginning of every script of a fenced lock of one key.
-- KEYS[1] resource, KEYS[2] its fence, KEYS[3] the node's marker
-- ARGV[1] token, ARGV[2] the fence in us of the nodes' clocks: the node stores at least this,
-- ARGV[3] the longest TTL in ms, the last ARGV how the marker begins. In commands that store
-- the token: ARGV[4] ttl in ms, ARGV[5] when the client sent this, in us of those clocks.
-- Returns one string "code seconds microseconds fence", which costs a node least, or
-- {value, pttl, now} if the key holds another value.
-- An error has its code and more words: Redis 7 turns a single word into "ERR LATE".
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local known = redis.call('GETRANGE', KEYS[2], '0', '23')
if known == '' and redis.call('PTTL', KEYS[2]) == -2 then
  known = '0'
end
local stored = tonumber(known)
-- tonumber() accepts 'nan', the only value that is not equal to itself.
if not stored or stored ~= stored then
  return redis.error_reply('FENCE is no number')
end
local fence = tonumber(ARGV[2])
-- A fence must stay close to the clocks: otherwise it could stay ahead of a node that forgot
-- it, even after the quarantine.
local ahead = fence > now + AHEAD_MAX
