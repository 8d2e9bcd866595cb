-- part: reads key, mine, slots; sets free
-- A '1' for each free slot of a semaphore, else a '0'. Who has released one does not need it.
local free = ''
for i = 1, mine and 0 or tonumber(slots) do
  free = free .. (redis.call('PTTL', key .. '!' .. i) == -2 and '1' or '0')
end
