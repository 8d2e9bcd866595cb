-- with guard.lua
-- As fenced_extend.lua; it also stores the term.
-- with extend_key.lua
-- with store_term.lua
return code .. time[1] .. ' ' .. time[2] .. ' ' .. known
