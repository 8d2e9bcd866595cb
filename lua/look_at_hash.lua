-- part: reads key; sets mine, value
-- Whether the key is a hash with the token in it (`mine`), or what it holds.
local mine, value = redis.pcall('HEXISTS', key, ARGV[1]), false
if type(mine) == 'table' and string.sub(mine.err, 1, 9) ~= 'WRONGTYPE' then
  return mine
end
mine = mine == 1
if not mine then
  -- with look.lua
  value = found
end
