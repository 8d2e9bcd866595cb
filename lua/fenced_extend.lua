-- with guard.lua
-- 1 extended, 0 gone, 2 planted anew (no vote)
-- Never ends a key earlier, as plain_extend.lua; and the fence is raised, too.
if not marked() then
  return redis.error_reply('MARKER is another')
elseif ahead then
  return redis.error_reply('AHEAD of the clock')
elseif value == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  raise(fence)
  return {1, now, stored}
elseif value then
  return held()
elseif ARGV[3] ~= '1' then
  return {0, now, stored}
elseif late then
  return redis.error_reply('LATE to lock anything')
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
raise(fence)
return {2, now, stored}
