-- part: reads member; sets digits, whole
-- The digits of a reader's token. 32 of them: `member`, of a sorted set, is one. Behind them is its
-- end, or a label.
local whole = member and #member < 100 and member .. '@' or ''
local digits = string.match(whole, '^s([a-z2-7]+)@') or string.match(whole, '^g:([a-z2-7]+)@') or ''
