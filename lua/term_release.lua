-- with guard.lua
-- As fenced_release.lua; the term ends.
local key = KEYS[1]
-- with look.lua
local value = found
local mine = value == ARGV[1]
if mine then
  redis.call('DEL', key, key .. '!term')
  -- with notify_observers.lua
end
-- with end_fenced_release.lua
