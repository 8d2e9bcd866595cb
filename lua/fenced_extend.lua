-- with guard.lua
-- and ARGV[6] '1': plant where nothing is
-- 1 extended, 0 gone, 2 planted anew (no vote)
-- Never ends a key earlier, as plain_extend.lua; and the fence is raised, too.
local value = redis.call('GET', KEYS[1])
-- with marked.lua
if not marked then
  return redis.error_reply('MARKER is another')
elseif ahead then
  return redis.error_reply('AHEAD of the clock')
end
if value == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[4])
  end
  -- with raise.lua
  return '1 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
elseif value then
  -- with held.lua
  return there
elseif ARGV[6] ~= '1' then
  return '0 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
end
-- with late.lua
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[4])
-- with raise.lua
return '2 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
