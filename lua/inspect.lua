-- KEYS[1] resource
-- Returns 0 if it is free, or {value, pttl, readers, depth, waiting, fence, waited}. `readers`, of
-- a shared lock: up to 30 whose time is not over, a space between them. `depth`, in Redisson's
-- layout: how often the owner has locked it. `waiting`: how many wait, of the first 100; `waited`:
-- for how many ms the first of them has. `fence`: that is stored, or 0.
local key = KEYS[1]
-- with look.lua
if found then
  local readers, depth = '', nil
  local time = redis.call('TIME')
  local member = found
  -- with digits.lua
  local list = #digits == 32 and redis.pcall('ZRANGE', key, '0', '29', 'WITHSCORES') or {}
  for i = 1, #list, 2 do
    if tonumber(list[i + 1]) >= time[1] * 1000 and string.find(list[i], '^[sg]') then
      readers = readers .. (readers ~= '' and ' ' or '') .. string.sub(list[i], 1, 128)
    end
  end
  local size = redis.pcall('HSTRLEN', key, found)
  if type(size) == 'number' and size > 0 and size < 12 then
    depth = tonumber(redis.pcall('HGETALL', key)[2])
  end
  local queue, waiting = redis.pcall('ZRANGE', key .. '!queue', '0', '99', 'WITHSCORES'), 0
  for i = 1, #queue, 2 do
    waiting = waiting + (tonumber(queue[i + 1]) < 4e15 and 1 or 0)
  end
  local waited = waiting > 0 and time[1] * 1000 + time[2] / 1000 - queue[2] / 1000 or 0
  local stored = string.find(found, '^[fg]:') and redis.pcall('GETRANGE', key .. '!fence', '0', '23')
  local number = tonumber(type(stored) == 'string' and stored) or 0
  local fence = number > 0 and number <= 9007199254740991 and number or 0
  return {found, redis.call('PTTL', key), readers, depth or 0, waiting, fence, waited}
end
return 0
