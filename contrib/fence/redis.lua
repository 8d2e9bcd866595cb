-- A fenced write for Redis: stores a value in a hash if the value's fencing token is at least
-- the largest token that the hash has seen. Redis runs a script atomically.
--
--   sha=$(redis-cli SCRIPT LOAD "$(cat redis.lua)")
--   redis-cli EVALSHA "$sha" 1 RECORD TOKEN VALUE
-- After a restart Redis replies NOSCRIPT: load the script again. Without SCRIPT LOAD:
--   redis-cli --eval redis.lua RECORD , TOKEN VALUE
--
-- Returns 1: written; 0: refused, a later holder of the lock has written. After an error
-- nothing is written. For a write of another kind replace the HSET of 'value'; what the script
-- writes must be in this script, because MULTI does not roll back.
local fence = ARGV[2] and string.match(ARGV[1], '^%d+$') and tonumber(ARGV[1])
-- A Lua number is a double: from 2^53 on, two different tokens could compare as equal.
if not fence or fence < 1 or fence > 9007199254740991 then
  return redis.error_reply('ERR want a fencing token below 2^53, and a value')
end
-- Compare as numbers: as strings '9' is larger than '10'.
if fence < tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') then
  return 0
end
-- Format with digits only: Lua's tostring() would write 9.007199254741e+15.
redis.call('HSET', KEYS[1], 'fence', string.format('%.0f', fence), 'value', ARGV[2])
return 1
