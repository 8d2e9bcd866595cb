-- ARGV[1] cursor of a scan, ARGV[2] pattern, ARGV[3] how many keys of the page to skip, ARGV[4]
-- '0': the keys that hold a token; '1': also those that hold none; '2': all names, and nothing is
-- read. ARGV[5] how many keys to scan
-- Returns {cursor, skip, keys}: where to go on, '0' and 0: it was the last page; each key after
-- its length and a space. As many as fit into a reply; a lock's own keys, and
-- those that are longer than a lock's may be, are left out.
local names = ARGV[4] == '2'
local page = redis.pcall('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[5])
if page.err then
  return redis.error_reply('NOPERM ' .. page.err)
end
local keys, size = {}, 0
for i, key in ipairs(page[2]) do
  local own = string.match(key, '!(%a+)$')
  if i > tonumber(ARGV[3]) and #key <= 512 and
    not (own and string.find(' fence hold intent marker queue term watch ', ' ' .. own .. ' ', 1, true)) then
    local wanted = names
    if not names then
      -- with look.lua
      local whole = found and #found < 100 and found .. '@' or ''
      local digits = string.match(whole, '^[prs]:?([A-Z]*[a-z2-7]+)@')
        or string.match(whole, '^[fg]:([A-Z]*[a-z2-7]+)@') or ''
      wanted = ARGV[4] == '1' and found or #digits == 32
    end
    if wanted then
      if size + #key > 3000 then
        return {ARGV[1], i - 1, table.concat(keys)}
      end
      keys[#keys + 1] = #key .. ' ' .. key
      size = size + #key + 5
    end
  end
end
return {page[1], 0, table.concat(keys)}
