-- Corrects a request's estimate by what it used. KEYS: tokens, month. ARGV: the second the estimate was
-- counted in; tokens and nano-dollars to add, which can be negative; whether tokens have a limit a
-- minute, and whether the month has one.
local second, tokens = tonumber(ARGV[1]), tonumber(ARGV[2])
-- What is used above the estimate counts now, what is less counts where the estimate did.
if tokens > 0 then second = now end
if ARGV[4] == '1' and tokens ~= 0 and second > now - SECONDS then add(window(KEYS[1]), second, tokens) end
if ARGV[5] ~= '1' then return {0, 0} end
local spent_tokens = redis.call('HINCRBY', KEYS[2], 't', ARGV[2])
local spent_nano = redis.call('HINCRBY', KEYS[2], 'n', ARGV[3])
redis.call('EXPIRE', KEYS[2], 70 * 86400)
return {spent_tokens, spent_nano}
