-- part: reads entry, key, life, waited; sets entered, freed, gone, intents, queue, waits
-- Adds a waiter to the wait queue of a key, or removes it. The queue is a sorted set of queue
-- entries. The score is the time since when the waiter waits, in us of this node's clock. An entry
-- is the channel to which the waiter's client subscribes, a space, and a number; of a reader, ' r'
-- follows.
-- A waiter that is no reader has an intent, too: no reader that has waited for a shorter time
-- comes before it. The intent lasts for `life` ms, unless the waiter renews it: one that died
-- must not keep readers out.
-- `gone`: a waiter that leaves had been notified. If the key is free, the next one is notified:
-- the notified waiter does not try.
-- The queue is optional and runs under pcall: if it fails, waiters wait longer.
local queue, intents, freed, gone = key .. '!queue', key .. '!intent', ' 0', false
local waits = entry and waited ~= ''
local entered = not entry or pcall(function()
  if not waits then
    gone = tonumber(redis.call('ZSCORE', queue, entry) or NOTIFIED) >= NOTIFIED
    redis.call('ZREM', queue, entry)
    if life then
      redis.pcall('ZREM', intents, entry)
    end
    return
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  redis.call('ZADD', queue, string.format('%.0f', now - tonumber(waited)), entry)
  -- A waiter that is not notified tries again when the lock has ended.
  local ms = redis.call('PTTL', key) + 60000
  if redis.call('PTTL', queue) < ms then
    redis.call('PEXPIRE', queue, ms)
  end
  -- One that was notified and died, or whose process has left the lock to another, would stay.
  local last = redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')
  if tonumber(last[2]) >= NOTIFIED then
    local ends = redis.pcall('ZSCORE', intents, last[1])
    if type(ends) ~= 'string' or tonumber(ends) < now then
      redis.call('ZREM', queue, last[1])
      redis.pcall('ZREM', intents, last[1])
    end
  end
  ms = tonumber(life)
  if ms then
    redis.call('ZADD', intents, string.format('%.0f', now + ms * 1000), entry)
    if redis.call('PTTL', intents) < ms then
      redis.call('PEXPIRE', intents, ms)
    end
    local oldest = redis.call('ZRANGE', intents, '0', '0', 'WITHSCORES')
    if tonumber(oldest[2]) < now then
      redis.call('ZREM', intents, oldest[1])
    end
  elseif life then
    redis.pcall('ZREM', intents, entry)
  end
end)
