-- part: reads entry, mine, value, waits; sets only_readers
-- A waiter that gives up may have kept readers out of a key that is free, or that readers hold.
local only_readers = not mine and entry and not waits
  and (not value or string.find(value, '^[sg]'))
