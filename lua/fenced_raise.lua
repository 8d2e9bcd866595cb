-- with guard.lua
-- Returns code 1: the token is stored and the fence is at least ARGV[2]; 0: gone.
-- with raise_fence.lua
return '1 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
