-- part: reads count; sets at, own, value
-- Which of the first `count` keys hold the token, and what the first other taken one holds.
-- A key of another type than a string is another owner's, too.
local own, at, value = {}, nil, nil
for i = 1, count do
  local key = KEYS[i]
  -- with look.lua
  if found == ARGV[1] then
    own[#own + 1] = key
  elseif found and not at then
    at, value = i, found
  end
end
