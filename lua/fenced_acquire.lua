-- with guard.lua
-- and, before how the marker begins: ARGV[7] how many fences are reserved
-- 1 acquired, with a fence so far above all that were ever stored here
if not marked() then
  return redis.error_reply('MARKER is another')
elseif late then
  return redis.error_reply('LATE to lock anything')
elseif value then
  return held()
end
fence = math.max(stored + tonumber(ARGV[7]), fence)
if fence > now + 5000000 then
  return redis.error_reply('AHEAD of the clock')
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
raise(fence)
return {1, now, fence}
