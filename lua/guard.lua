-- The beginning of every text of a fenced lock.
-- KEYS[1] resource, KEYS[2] its fence, KEYS[3] the node's marker
-- ARGV[1] token, ARGV[2] the fence, in us by the nodes' clocks: at least so much is stored,
-- ARGV[3] the longest TTL in ms, the last one how the marker begins; and of whoever stores
-- the token ARGV[4] ttl in ms, ARGV[5] when this was said, by those clocks
-- Answers "code seconds microseconds fence" as one text, which takes least of a node, or
-- {value, pttl, now} where another's value is.
-- An error begins with its code: of a single word Redis 7 makes "ERR LATE".
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local known = redis.call('GET', KEYS[2]) or '0'
local stored = tonumber(known)
-- 'nan' is read by Lua, and is the one that differs from itself.
if not stored or stored ~= stored then
  return redis.error_reply('FENCE is no number')
end
local fence = tonumber(ARGV[2])
-- A fence may not run away from the clocks: that would outlive a node that forgets.
local ahead = fence > now + 5000000
