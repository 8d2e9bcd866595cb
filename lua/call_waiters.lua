-- part: reads before, entry, gone, key, own, waits; sets awaited, call_next, free, queues_of
-- Notifies the first waiters of each key of a set. One that moves to the queue of another key
-- notifies the next waiter of the one that it leaves, if that is free.
local function call_next(name, waits)
  local queue, intents, only_readers, freed = name .. '!queue', name .. '!intent', false, ' 0'
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
end
local free = before or gone and not own[1] and key
if free and redis.call('PTTL', free) == -2 then
  call_next(free, false)
end
