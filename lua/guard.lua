-- The beginning of every text of a fenced lock.
-- KEYS[1] resource, KEYS[2] its fence
-- ARGV[1] token, ARGV[2] ttl in ms, ARGV[3] '1': plant where nothing is, ARGV[4] the fence,
-- at least so much is stored, ARGV[5] when this was said; both in us by the nodes' clocks
-- Answers {code, now, fence}, or {value, pttl, now} where another's value is.
-- An error begins with its code: of a single word Redis 7 makes "ERR LATE".
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local value = redis.call('GET', KEYS[1])
local stored = tonumber(redis.call('GET', KEYS[2]) or '0')
local fence = tonumber(ARGV[4])
-- A fence may not run away from the clocks: that would outlive a node that forgets.
local ahead = fence > now + 5000000
-- What was held up on its way may not lock anything any more.
local late = now - tonumber(ARGV[5]) > 1000000
local function held()
  return {string.sub(value, 1, 128), redis.call('PTTL', KEYS[1]), now}
end
local function raise(to)
  if to > stored then
    redis.call('SET', KEYS[2], string.format('%.0f', to), 'PX', 86400000)
    stored = to
  end
end
