-- KEYS[1] resource
-- Returns 0 if it is free, or {value, pttl, readers, depth}. `readers`, of a shared lock: up to 30
-- whose time is not over, a space between them. `depth`, in Redisson's layout: how often the owner
-- has locked it.
local key = KEYS[1]
-- with look.lua
if found then
  local readers, depth = '', nil
  local time = redis.call('TIME')
  local list = redis.pcall('ZRANGE', key, '0', '29', 'WITHSCORES')
  for i = 1, #list, 2 do
    if tonumber(list[i + 1]) >= time[1] * 1000 and string.find(list[i], '^[sg]') then
      readers = readers .. (readers ~= '' and ' ' or '') .. string.sub(list[i], 1, 128)
    end
  end
  if found ~= 'a hash' then
    depth = tonumber(redis.pcall('HGETALL', key)[2])
  end
  return {string.sub(found, 1, 128), redis.call('PTTL', key), readers, depth or 0}
end
return 0
