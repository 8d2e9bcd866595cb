-- KEYS[1] a node's marker: looks at it, or sets it if it still is as it was
-- ARGV[1] as it was, ARGV[2] as it is to be; '' stands for none
-- {marker, now}
local time = redis.call('TIME')
local marker = redis.call('GET', KEYS[1]) or ''
if ARGV[1] and marker == ARGV[1] then
  marker = ARGV[2]
  if marker == '' then
    redis.call('DEL', KEYS[1])
  else
    redis.call('SET', KEYS[1], marker)
  end
end
return {marker, time[1] * 1000000 + time[2]}
