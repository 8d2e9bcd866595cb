-- part: reads before, entry, key, own, waits; sets awaited, call_next
-- A release notifies the first waiters of each key. A set that was notified at a key, and did
-- not get all its keys, notifies the next waiter of that key in its stead, if the key is free.
local function call_next(name, waits)
  local queue = name .. '!queue'
  -- with notify.lua
  return awaited
end
local awaited = false
for _, mine in ipairs(own) do
  awaited = call_next(mine, waits) or awaited
end
if before then
  if before ~= key then
    redis.pcall('ZREM', before .. '!queue', entry)
  end
  if redis.call('PTTL', before) == -2 then
    call_next(before, false)
  end
end
