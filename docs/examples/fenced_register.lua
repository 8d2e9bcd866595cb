-- A record that refuses whoever comes too late: a value is stored if its fencing token is at
-- least the largest that this record has seen. Redis runs a script as one step.
--   redis-cli --eval fenced_register.lua RECORD , TOKEN VALUE
-- Answers 1: written; 0: refused, a later holder has written. After an error nothing is.
local fence = ARGV[2] and string.match(ARGV[1], '^%d+$') and tonumber(ARGV[1])
-- Lua's numbers are doubles: from 2^53 on, two tokens could look equal.
if not fence or fence < 1 or fence > 9007199254740991 then
  return redis.error_reply('ERR want a fencing token below 2^53, and a value')
end
-- As numbers: as texts '9' would be more than '10'.
if fence < tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') then
  return 0
end
-- In digits: Lua's tostring() would make 9.007199254741e+15 of it.
redis.call('HSET', KEYS[1], 'fence', string.format('%.0f', fence), 'value', ARGV[2])
return 1
