-- with guard.lua
-- and ARGV[6] '1': store the token again if the key is missing
-- Returns code 1: extended, 0: gone, 2: recreated (no vote).
-- with extend_key.lua
return code .. time[1] .. ' ' .. time[2] .. ' ' .. known
