-- part: sets marked
-- A node that forgot, was replaced or is quarantined has another marker, and so no vote.
local marked = redis.call('GETRANGE', KEYS[#KEYS], '0', '15') == ARGV[#ARGV]
