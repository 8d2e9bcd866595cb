-- part: reads ahead, fence, key, known, mine, now, stored, time, value; sets entered, entry, freed, gone, intents, known, life, notifies, only_readers, queue, waited, waits
-- The end of a release of one fenced lock: its fence, its queue entry, and the reply.
if not ahead then
  -- with store_fence.lua
end
local entry, waited, life = ARGV[5] and ARGV[4], ARGV[5], ARGV[6]
-- with enqueue.lua
-- with may_notify.lua
if notifies or only_readers then
  -- with notify.lua
  if mine then
    return (awaited and '2 ' or '1 ') .. time[1] .. ' ' .. time[2] .. ' ' .. known
  end
end
if value then
  -- with held.lua
  there[4] = not entered and 0 or nil
  return there
end
return '0 ' .. time[1] .. ' ' .. time[2] .. ' ' .. known
