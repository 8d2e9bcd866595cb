-- part: reads clock, key, value
-- A reader whose time is over later than any lock's means that the clock was set back.
if not value then
  local latest = clock + tonumber(ARGV[3])
  for _, reader in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. latest, '+inf')) do
    if reader ~= ARGV[1] then
      redis.call('ZADD', key, latest, reader)
    end
  end
end
