-- part: reads key, mine, slots; sets free
-- Which slots of a semaphore are free here: a '1' or a '0' for each. Who has released one does
-- not need it.
local free = ''
for i = 1, mine and 0 or tonumber(slots) do
  free = free .. (redis.call('PTTL', key .. '!' .. i) == -2 and '1' or '0')
end
