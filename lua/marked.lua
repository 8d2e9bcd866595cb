-- Whoever forgot, was replaced or is in quarantine has another marker, and no vote.
local marked = string.sub(redis.call('GET', KEYS[3]) or '', 1, 16) == ARGV[#ARGV]
