-- part: reads member; sets digits, whole
-- 32 of them: the member of a sorted set is a reader's token. Behind them is its end, or a label.
local whole = member and #member < 100 and member .. '@' or ''
local digits = string.match(whole, '^s([a-z2-7]+)@') or string.match(whole, '^g:([a-z2-7]+)@') or ''
