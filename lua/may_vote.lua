-- part: reads ahead; sets marked
-- Refuses on a node that may not vote, or whose clock is far behind the fence: it changes nothing.
-- with check_marker.lua
if not marked then
  return redis.error_reply('MARKER is another')
elseif ahead then
  return redis.error_reply('AHEAD of the clock')
end
