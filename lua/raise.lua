if fence > stored then
  redis.call('SET', KEYS[2], ARGV[4], 'PX', '86400000')
  stored = fence
end
