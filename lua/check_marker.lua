-- part: sets marked
-- Whether the node has the marker that the client knows. A node that forgot, was replaced or is
-- quarantined has another one, and so no vote.
local marked = redis.call('GETRANGE', KEYS[#KEYS], '0', '15') == ARGV[#ARGV]
