-- part: reads before, entry, own, waits; sets awaited, call_next, queues_of
-- A release notifies the first waiters of each key. A set that leaves the queue of a key, and
-- did not get all its keys, notifies the next waiter of that key, if the key is free.
local function call_next(name, waits)
  local queue, intents, only_readers, freed = name .. '!queue', name .. '!intent', false, ''
  -- with notify.lua
  return awaited
end
local function queues_of(key, ...)
  if key then
    return key .. '!queue', queues_of(...)
  end
end
local awaited = false
if own[1] and redis.call('EXISTS', queues_of(unpack(own))) > 0 then
  for _, mine in ipairs(own) do
    awaited = call_next(mine, waits) or awaited
  end
end
if before then
  redis.pcall('ZREM', before .. '!queue', entry)
  if (waits or not own[1]) and redis.call('PTTL', before) == -2 then
    call_next(before, false)
  end
end
