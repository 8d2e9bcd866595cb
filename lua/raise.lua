if fence > stored then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', '86400000')
  known = ARGV[2]
end
