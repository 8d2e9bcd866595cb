-- part: reads key, latest; sets list
-- Shortens the time of readers of a fenced lock that is over later than any such lock's: the clock
-- was set back. A plain lock may have a longer TTL.
local list = redis.pcall('ZRANGE', key, '-100', '-1', 'WITHSCORES')
for i = 1, #list, 2 do
  if tonumber(list[i + 1]) > latest and string.find(list[i], '^g:') and list[i] ~= ARGV[1] then
    redis.call('ZADD', key, latest, list[i])
  end
end
