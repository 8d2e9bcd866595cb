-- part: reads entry, gone, mine, value, waits; sets notifies, only_readers
-- Whether a release notifies the first waiter, or only readers. A waiter that gives up may have
-- kept readers out of a key that is free, or that readers hold.
local notifies = mine or gone and not value
local only_readers = not notifies and entry and not waits
  and (not value or string.find(value, '^[sg]'))
