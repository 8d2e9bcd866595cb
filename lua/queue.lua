-- Who waits for KEYS[1]: a sorted set beside it, of places by the time since when they wait,
-- in us by this node's clock. A place is the channel that its client listens to, and a number.
-- It is a courtesy, and called by pcall: without it whoever waits waits longer.
local queue = KEYS[1] .. '!queue'
local function enter(place, waited)
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
end
local function call(place, rank)
  local channel, number = string.match(place, '^(.*) (%d+)$')
  return channel and redis.call('PUBLISH', channel, number .. rank) > 0
end
-- The first who still listens, and the second, should the first not come. Whoever waits and
-- cannot be called leaves a trace all the same: it was awaited.
local awaited = false
local function call_first()
  for _ = 1, 100 do
    local places = redis.call('ZRANGE', queue, '0', '1')
    if not places[1] then
      return
    end
    redis.call('ZREM', queue, places[1])
    awaited = true
    if call(places[1], ' 0') then
      if places[2] then
        call(places[2], ' 1')
      end
      return
    end
  end
end
