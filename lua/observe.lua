-- KEYS[1] resource, and, to be notified of changes, ARGV[1] an entry as in a wait queue, ARGV[2] for
-- how long, in ms
-- Returns 0 if nobody leads here, or {term, pttl}; the term is its number, a space and the token.
local key, watch = KEYS[1], KEYS[1] .. '!watch'
if ARGV[1] then
  pcall(function()
    local time = redis.call('TIME')
    local now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
    redis.call('ZADD', watch, string.format('%.0f', now + tonumber(ARGV[2])), ARGV[1])
    redis.call('PEXPIRE', watch, ARGV[2])
    local first = redis.call('ZRANGE', watch, '0', '0', 'WITHSCORES')
    if tonumber(first[2]) < now then
      redis.call('ZREM', watch, first[1])
    end
  end)
end
-- with look.lua
local term = redis.pcall('GETRANGE', key .. '!term', '0', '145')
if found and type(term) == 'string' and string.match(term, ' (.*)$') == found then
  return {string.sub(term, 1, 128), redis.call('PTTL', key)}
end
return 0
