-- part: reads entry, key, known, life, mine, now, time, value, waited; sets entered, freed, gone, intents, notifies, only_readers, queue, waits
-- The end of a release of one fenced lock: its queue entry, and the reply.
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
