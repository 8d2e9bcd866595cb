-- part: reads key, time, value, waited; sets pttl, value
-- Refuses a reader (`value`) if a waiter that is no reader has waited for longer.
local pttl = value and redis.call('PTTL', key)
if not value then
  pcall(function()
    local now = time[1] * 1000000 + time[2]
    local list = redis.call('ZRANGE', key .. '!intent', '-100', '-1', 'WITHSCORES')
    for i = 1, #list, 2 do
      local since = tonumber(redis.call('ZSCORE', key .. '!queue', list[i]) or nil)
      if since and tonumber(list[i + 1]) > now and now - since % NOTIFIED > (tonumber(waited) or 0) then
        value, pttl = 'a waiting writer', (list[i + 1] - now) / 1000 + 1
        return
      end
    end
  end)
end
