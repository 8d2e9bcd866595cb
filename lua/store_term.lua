-- part: reads key; sets changes, left, term, text
-- Stores the term of a leader, which is the fence of its lock, with the leader's token. That is when
-- the lock has been acquired, and with each extension: a failed attempt raises the fence, and not
-- the term. It ends with the lock. Who has adopted the lock may not know the fence: 0.
local term, text, left = key .. '!term', ARGV[2] .. ' ' .. ARGV[1], redis.call('PTTL', key)
local changes = ARGV[2] ~= '0' and redis.pcall('GETRANGE', term, '0', '145') ~= text
if ARGV[2] == '0' then
  redis.pcall('PEXPIRE', term, left)
elseif left > 0 then
  redis.call('SET', term, text, 'PX', left)
end
if changes then
  -- with notify_observers.lua
end
