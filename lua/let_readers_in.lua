-- part: reads key, waiter, writer; sets freed, intents, only_readers, queue, waits
-- Ends a downgrade: its client waits no more, and readers may come in.
local queue, intents, waits, only_readers, freed = key .. '!queue', key .. '!intent', false, true, ' 0'
if waiter then
  -- with waits_no_more.lua
end
if writer then
  -- with notify.lua
end
