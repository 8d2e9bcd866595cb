-- part: reads key, mine, value; sets entered, entry, waited, queue, waits
-- The end of a release of one plain lock: its queue entry, and the reply.
local entry, waited = ARGV[2], ARGV[3]
-- with enqueue.lua
if mine then
  -- with notify.lua
  return awaited and 2 or 1
elseif value then
  return {string.sub(value, 1, 128), redis.call('PTTL', key), not entered and 0 or nil}
end
return 0
