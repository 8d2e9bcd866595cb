-- part: reads now
-- Refuses a command that was delayed on its way: it must not store a lock any more.
if now - tonumber(ARGV[5]) > 1000000 then
  return redis.error_reply('LATE to lock anything')
end
