-- Who waits for KEYS[1]: a sorted set beside it, of places by the time since when they wait,
-- in us by this node's clock. A place is the channel that its client listens to, and a number.
-- It is a courtesy, and called by pcall: without it whoever waits waits longer.
local queue = KEYS[1] .. '!queue'
local entered = not place or pcall(function()
  if waited == '' then
    redis.call('ZREM', queue, place)
    return
  end
  local time = redis.call('TIME')
  local since = time[1] * 1000000 + time[2] - tonumber(waited)
  redis.call('ZADD', queue, string.format('%.0f', since), place)
  -- Whoever is not called comes back when the lock has ended.
  local ms = redis.call('PTTL', KEYS[1]) + 60000
  if redis.call('PTTL', queue) < ms then
    redis.call('PEXPIRE', queue, ms)
  end
end)
