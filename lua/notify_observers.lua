-- part: reads key
-- Notifies the observers of an election. They are in a sorted set; the score is when each ends.
-- They look again by themselves, so nothing depends on this.
pcall(function()
  for _, one in ipairs(redis.call('ZRANGE', key .. '!watch', '0', '99')) do
    local channel, number = string.match(one, '^(.*) (%d+)$')
    if channel then
      redis.call('PUBLISH', channel, number .. ' 0')
    end
  end
end)
