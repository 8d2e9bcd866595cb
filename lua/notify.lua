-- part: reads freed, intents, only_readers, queue, waits; sets awaited, entries
-- Notifies the first waiter that is still subscribed, and the one after it in case the first
-- does not come; or, if the first is a reader, all readers up to the next other waiter. A
-- waiter that cannot be notified still sets `awaited`, so that the release can report it.
-- A notified waiter with an intent keeps its entry, behind all others: a reader that comes now
-- must not overtake it.
-- The entries before the first waiter are dead: their clients crashed while the lock was held.
-- A release removes up to 10,000 of them, which blocks the node for about 25 ms.
-- `freed`: a space and the slot of a semaphore that is free now, or 0.
-- The message names the key, too: a client then leaves the queue for a waiter that it does not
-- know, and so notifies the next one.
-- A client that queues itself with this release notifies no waiter: it did not get the lock,
-- and tries again as all others do.
local entries = waits and {} or redis.pcall('ZRANGE', queue, '0', '1', 'WITHSCORES')
local awaited = entries[1] and tonumber(entries[2]) < NOTIFIED
if awaited then
  local function call(one, rank)
    local channel, number = string.match(one or '', '^(.*) (%d+)')
    local message = (number or '') .. rank .. freed .. ' ' .. string.sub(queue, 1, -7)
    return channel and redis.call('PUBLISH', channel, message) > 0
  end
  pcall(function()
    local i, last, found = -1, 0, false
    for _ = 0, 10000 do
      i = i + 2
      if i > last then
        entries = redis.call('ZRANGE', queue, '0', '100', 'WITHSCORES')
        i, last = 1, 200
      end
      local one, since = entries[i], tonumber(entries[i + 1])
      local reads = string.sub(one or '', -2) == ' r'
      if not one or since >= NOTIFIED then
        return
      elseif (found or only_readers) and not reads then
        if found and not only_readers then
          call(one, ' 1')
        end
        return
      end
      if type(redis.pcall('ZSCORE', intents, one)) == 'string' then
        redis.call('ZADD', queue, string.format('%.0f', since + NOTIFIED), one)
      else
        redis.call('ZREM', queue, one)
      end
      found = call(one, ' 0') or found
      if found and not reads then
        if tonumber(entries[i + 3] or NOTIFIED) < NOTIFIED then
          call(entries[i + 2], ' 1')
        end
        return
      end
    end
  end)
end
