-- part: reads clock, key, value; sets latest, list
-- A reader whose time is over later than any lock's means that the clock was set back.
local latest = clock + tonumber(ARGV[3])
local list = value and {} or redis.call('ZRANGE', key, '-100', '-1', 'WITHSCORES')
for i = 1, #list, 2 do
  if tonumber(list[i + 1]) > latest and list[i] ~= ARGV[1] then
    redis.call('ZADD', key, latest, list[i])
  end
end
