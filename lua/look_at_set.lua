-- part: reads count; sets at, own, strings, texts, token, value
-- The ones of the first `count` keys that hold the token, and what the first other taken one
-- holds. A key of another type than a string, which MGET takes for a missing one, is another
-- owner's, too.
local own, token, at, value, strings = {}, ARGV[1], nil, nil, 0
local texts = redis.call('MGET', unpack(KEYS, 1, count))
for i = 1, count do
  local text = texts[i]
  if text == token then
    own[#own + 1] = KEYS[i]
  elseif text and not at then
    at, value = i, text
  end
  strings = text and strings + 1 or strings
end
if strings < count and redis.call('EXISTS', unpack(KEYS, 1, count)) > strings then
  for i = 1, at or count do
    local key = KEYS[i]
    -- with look.lua
    if found and found ~= token then
      at, value = i, found
      break
    end
  end
end
