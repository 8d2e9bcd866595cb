-- The beginning of every text of a fenced lock.
-- KEYS[1] resource, KEYS[2] its fence, KEYS[3] the node's marker
-- ARGV[1] token, ARGV[2] ttl in ms, ARGV[3] '1': plant where nothing is, ARGV[4] the fence,
-- at least so much is stored, ARGV[5] when this was said; both in us by the nodes' clocks,
-- ARGV[6] the longest TTL in ms, the last one how the marker begins
-- Answers {code, now, fence}, or {value, pttl, now} where another's value is.
-- An error begins with its code: of a single word Redis 7 makes "ERR LATE".
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local value = redis.call('GET', KEYS[1])
local stored = tonumber(redis.call('GET', KEYS[2]) or '0')
-- 'nan' is read by Lua, and is the one that differs from itself.
if not stored or stored ~= stored then
  return redis.error_reply('FENCE is no number')
end
local fence = tonumber(ARGV[4])
-- A fence may not run away from the clocks: that would outlive a node that forgets.
local ahead = fence > now + 5000000
-- What was held up on its way may not lock anything any more.
local late = now - tonumber(ARGV[5]) > 1000000
-- Whoever forgot, was replaced or is in quarantine has another marker, and no vote.
local function marked()
  return string.sub(redis.call('GET', KEYS[3]) or '', 1, 16) == ARGV[#ARGV]
end
local function held()
  local pttl = redis.call('PTTL', KEYS[1])
  -- No fenced lock is that long: the clock was set back. Whoever says another marker, as a
  -- release may, does not know how long the locks of this deployment can be.
  if pttl > tonumber(ARGV[6]) and string.sub(value, 1, 2) == 'f:' and marked() then
    redis.call('PEXPIRE', KEYS[1], ARGV[6])
    pttl = tonumber(ARGV[6])
  end
  return {string.sub(value, 1, 128), pttl, now}
end
local function raise(to)
  if to > stored then
    redis.call('SET', KEYS[2], string.format('%.0f', to), 'PX', '86400000')
    stored = to
  end
end
