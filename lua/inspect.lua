-- KEYS[1] resource
-- Returns 0 if it is free, or {value, pttl}; of a shared lock also a string with up to 30 readers
-- whose time is not over, a space between them.
local key = KEYS[1]
-- with look.lua
if found then
  local reply = {string.sub(found, 1, 128), redis.call('PTTL', key)}
  local time = redis.call('TIME')
  local list = redis.pcall('ZRANGE', key, '0', '29', 'WITHSCORES')
  for i = 1, #list, 2 do
    if tonumber(list[i + 1]) >= time[1] * 1000 and string.find(list[i], '^[sg]') then
      reply[3] = (reply[3] and reply[3] .. ' ' or '') .. string.sub(list[i], 1, 128)
    end
  end
  return reply
end
return 0
