-- part: reads count; sets at, own, value
-- Which of the first `count` keys hold the token, and what the first other taken one holds.
-- A key of another type than a string is another owner's, too.
local own, at, value = {}, nil, nil
for i = 1, count do
  local found = redis.pcall('GET', KEYS[i])
  if found and found.err then
    if string.sub(found.err, 1, 9) ~= 'WRONGTYPE' then
      return found
    end
    found = 'a ' .. (redis.pcall('TYPE', KEYS[i]).ok or 'value of another type')
  end
  if found == ARGV[1] then
    own[#own + 1] = KEYS[i]
  elseif found and not at then
    at, value = i, found
  end
end
