-- part: reads count; sets at, own, token, value
-- The ones of the first `count` keys that hold the token, and what the first other taken one
-- holds.
local own, token, at, value = {}, ARGV[1], nil, nil
for i = 1, count do
  local key = KEYS[i]
  -- with look.lua
  if found == token then
    own[#own + 1] = key
  elseif found and not at then
    at, value = i, found
  end
end
