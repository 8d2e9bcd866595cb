-- KEYS resources
-- Returns a string with an entry for each, in this order; those at the end that do not fit are
-- left out. '- ': the key is free. Otherwise seven numbers, each with a space behind it, the
-- value and the readers: the length of these two, pttl, depth, waiting, waited, fence. `readers`,
-- of a shared lock: up to 30 whose time is not over, a space between them. `depth`, in Redisson's
-- layout: how often the owner has locked it. `waiting`: how many wait, of the first 100; `waited`:
-- for how many ms the first of them has. `fence`: that is stored, or 0.
local entries, room, time = {}, 4096, nil
for i, key in ipairs(KEYS) do
  local entry = '- '
  -- with look.lua
  if found then
    local readers, depth = '', 0
    local member = found
    -- with digits.lua
    local queue, waiting = redis.pcall('ZRANGE', key .. '!queue', '0', '99', 'WITHSCORES'), 0
    if queue[1] or #digits == 32 then
      time = time or redis.call('TIME')
    end
    local list = #digits == 32 and redis.pcall('ZRANGE', key, '0', '29', 'WITHSCORES') or {}
    for at = 1, #list, 2 do
      if tonumber(list[at + 1]) >= time[1] * 1000 and string.find(list[at], '^[sg]') then
        readers = readers .. (readers ~= '' and ' ' or '') .. string.sub(list[at], 1, 128)
      end
    end
    if kind == 'hash' then
      local size = redis.pcall('HSTRLEN', key, found)
      if type(size) == 'number' and size > 0 and size < 12 then
        depth = tonumber(string.match(redis.pcall('HGETALL', key)[2] or '', '^%d+$')) or 0
      end
    end
    for at = 1, #queue, 2 do
      waiting = waiting + (tonumber(queue[at + 1]) < NOTIFIED and 1 or 0)
    end
    local waited = waiting > 0 and tonumber(queue[2]) > 0 and time[1] * 1000 + time[2] / 1000 - queue[2] / 1000 or 0
    local stored = string.find(found, '^[FENCED_LETTERS]:') and redis.pcall('GETRANGE', key .. '!fence', '0', '23')
    local number = tonumber(type(stored) == 'string' and stored) or 0
    local fence = number > 0 and number <= 9007199254740991 and number or 0
    entry = string.format('%d %d %.0f %.0f %d %.0f %.0f ', #found, #readers,
      redis.call('PTTL', key), depth, waiting, waited, fence) .. found .. readers
  end
  room = room - #entry
  if i > 1 and room < 0 then
    break
  end
  entries[i] = entry
end
return table.concat(entries)
