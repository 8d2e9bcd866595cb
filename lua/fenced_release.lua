-- with guard.lua
-- 1 released, 0 gone; the fence is raised wherever that may be
if not ahead then
  raise(fence)
end
if value == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return {1, now, stored}
elseif value then
  return held()
end
return {0, now, stored}
