-- part: sets marked
-- A node that forgot, was replaced or is quarantined has another marker, and so no vote.
local marked = string.sub(redis.call('GET', KEYS[#KEYS]) or '', 1, 16) == ARGV[#ARGV]
