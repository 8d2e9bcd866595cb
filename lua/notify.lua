-- part: reads queue, waits; sets awaited, entries
-- Notifies the first waiter that is still subscribed, and the one after it in case the first
-- does not come. A waiter that cannot be notified still sets `awaited`, so that the release
-- can report it.
-- The entries before the first waiter are dead: their clients crashed while the lock was held.
-- A release removes up to 10,000 of them, which blocks the node for about 25 ms.
-- A client that queues itself with this release notifies no waiter: it did not get the lock,
-- and tries again as all others do.
local entries = waits and {} or redis.pcall('ZRANGE', queue, '0', '1')
local awaited = entries[1]
if awaited then
  local function call(one, rank)
    local channel, number = string.match(one or '', '^(.*) (%d+)$')
    return channel and redis.call('PUBLISH', channel, number .. rank) > 0
  end
  pcall(function()
    local i, last = 0, 1
    for _ = 0, 10000 do
      i = i + 1
      if i > last then
        entries = redis.call('ZRANGE', queue, '0', '100')
        i, last = 1, 100
      end
      if not entries[i] then
        return
      end
      redis.call('ZREM', queue, entries[i])
      if call(entries[i], ' 0') then
        call(entries[i + 1], ' 1')
        return
      end
    end
  end)
end
