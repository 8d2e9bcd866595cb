-- KEYS[1] the node's marker: reads it, or compares and sets it
-- ARGV[1] the expected marker, ARGV[2] the new one; '' means no marker
-- Returns {marker, now}.
local time = redis.call('TIME')
local marker = redis.call('GETRANGE', KEYS[1], '0', '1151')
if ARGV[1] and marker == ARGV[1] then
  marker = ARGV[2]
  if marker == '' then
    redis.call('DEL', KEYS[1])
  else
    redis.call('SET', KEYS[1], marker)
  end
end
return {marker, time[1] * 1000000 + time[2]}
