-- ARGV[1] cursor of a scan, ARGV[2] pattern, ARGV[3] how many keys of the page to skip, ARGV[4]
-- '0': the keys that hold a token; '1': also those that hold none; '2': all names, and nothing is
-- read. ARGV[5] how many keys to scan
-- Returns {cursor, skip, keys, others}: where to go on, '0' and 0: it was the last page; each key
-- after its length and a space; 1: other keys that hold a value were left out, else 0. A page that
-- does not fit into a reply is made shorter: the same cursor may give other keys another time, so
-- few are skipped. Keys with a reserved end, and those that are longer than a lock's, are left out.
local names = ARGV[4] == '2'
local page, keys, size, rest, others = {}, {}, 0, 0, 0
for _, count in ipairs({ARGV[5], '8', '1'}) do
  if not rest then
    break
  end
  page = redis.pcall('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', count)
  if page.err then
    return redis.error_reply('NOPERM ' .. page.err)
  end
  keys, size, rest = {}, 0, false
  for i, key in ipairs(page[2]) do
    if i > tonumber(ARGV[3]) and #key <= 512 and not string.find(key, '![a-z]+$') then
      local wanted = names
      if not names then
        -- with look.lua
        local whole = found and #found < 100 and found .. '@' or ''
        local digits = string.match(whole, '^[LETTERS]([A-Z]*[a-z2-7]+)@')
          or string.match(whole, '^[COLON_LETTERS]:([A-Z]*[a-z2-7]+)@') or ''
        wanted = ARGV[4] == '1' and found or #digits == 32
        others = found and not wanted and 1 or others
      end
      if wanted and size + #key > 3000 then
        rest = i - 1
        break
      elseif wanted then
        keys[#keys + 1] = #key .. ' ' .. key
        size = size + #key + 5
      end
    end
  end
end
return {rest and ARGV[1] or page[1], rest or 0, table.concat(keys), others}
