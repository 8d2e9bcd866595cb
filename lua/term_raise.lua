-- with guard.lua
-- As fenced_raise.lua; it also stores the term.
-- with raise_fence.lua
-- with store_term.lua
return '1 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
