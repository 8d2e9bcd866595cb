-- What was held up on its way may not lock anything any more.
if now - tonumber(ARGV[5]) > 1000000 then
  return redis.error_reply('LATE to lock anything')
end
