-- part: reads entry, key, life, mine, value, waited; sets entered, freed, gone, intents, notifies, only_readers, queue, waits
-- The end of a release of one plain lock: its queue entry, and the reply.
-- with enqueue.lua
-- with may_notify.lua
if notifies or only_readers then
  -- with notify.lua
  if mine then
    return awaited and 2 or 1
  end
end
if value then
  return {value, redis.call('PTTL', key), not entered and 0 or nil}
end
return 0
