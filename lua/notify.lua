-- part: reads queue, waits; sets awaited, entries
-- Notifies the first waiter that is still subscribed, and the one after it in case the first
-- does not come. A waiter that cannot be notified still sets `awaited`, so that the release
-- can report it.
-- A client that queues itself with this release notifies no waiter: it did not get the lock,
-- and tries again as all others do.
local awaited = false
local entries = waits and {} or redis.pcall('ZRANGE', queue, '0', '1')
if entries[1] then
  local function call(one, rank)
    local channel, number = string.match(one, '^(.*) (%d+)$')
    return channel and redis.call('PUBLISH', channel, number .. rank) > 0
  end
  pcall(function()
    for _ = 1, 100 do
      redis.call('ZREM', queue, entries[1])
      awaited = true
      if call(entries[1], ' 0') then
        if entries[2] then
          call(entries[2], ' 1')
        end
        return
      end
      entries = redis.call('ZRANGE', queue, '0', '1')
      if not entries[1] then
        return
      end
    end
  end)
end
