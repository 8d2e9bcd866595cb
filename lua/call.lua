-- The first who still listens, and the second, should the first not come. Whoever waits and
-- cannot be called leaves a trace all the same: it was awaited.
-- Who goes on waiting calls nobody: it was not served, and tries again as all others do.
local awaited = false
local places = (not place or waited == '') and redis.pcall('ZRANGE', queue, '0', '1') or {}
if places[1] then
  local function call(one, rank)
    local channel, number = string.match(one, '^(.*) (%d+)$')
    return channel and redis.call('PUBLISH', channel, number .. rank) > 0
  end
  pcall(function()
    for _ = 1, 100 do
      redis.call('ZREM', queue, places[1])
      awaited = true
      if call(places[1], ' 0') then
        if places[2] then
          call(places[2], ' 1')
        end
        return
      end
      places = redis.call('ZRANGE', queue, '0', '1')
      if not places[1] then
        return
      end
    end
  end)
end
