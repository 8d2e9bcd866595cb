-- What there is to say of another's value.
local pttl = redis.call('PTTL', KEYS[1])
-- No fenced lock is that long: the clock was set back. Whoever says another marker, as a
-- release may, does not know how long the locks of this deployment can be.
if pttl > tonumber(ARGV[3]) and string.sub(value, 1, 2) == 'f:' then
  -- with marked.lua
  if marked then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    pttl = tonumber(ARGV[3])
  end
end
local there = {string.sub(value, 1, 128), pttl, now}
