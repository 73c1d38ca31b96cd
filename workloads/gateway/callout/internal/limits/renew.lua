-- Renews a reservation that has not ended.
-- KEYS: reservations. ARGV: reservation, seconds.
local time = redis.call('TIME')
return redis.call('ZADD', KEYS[1], 'XX', 'CH', tonumber(time[1]) + tonumber(ARGV[2]), ARGV[1])
