-- part: reads entry, key, waited; sets entered, queue, waits
-- The wait queue of a key: a sorted set of queue entries. The score is the time since when
-- the waiter waits, in us of this node's clock. An entry is the channel to which the waiter's
-- client subscribes, a space, and a number.
-- The queue is optional and runs under pcall: if it fails, waiters wait longer.
local queue = key .. '!queue'
local waits = entry and waited ~= ''
local entered = not entry or pcall(function()
  if not waits then
    redis.call('ZREM', queue, entry)
    return
  end
  local time = redis.call('TIME')
  local since = time[1] * 1000000 + time[2] - tonumber(waited)
  redis.call('ZADD', queue, string.format('%.0f', since), entry)
  -- A waiter that is not notified tries again when the lock has ended.
  local ms = redis.call('PTTL', key) + 60000
  if redis.call('PTTL', queue) < ms then
    redis.call('PEXPIRE', queue, ms)
  end
end)
