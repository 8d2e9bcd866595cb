-- part: reads member; sets digits
-- 32 of them: the member of a sorted set is a reader's token.
local digits = string.match(member or '', '^s([a-z2-7]+)')
  or string.match(member or '', '^g:([a-z2-7]+)') or ''
