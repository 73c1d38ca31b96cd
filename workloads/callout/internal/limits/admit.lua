-- Admits one request, or says which limit it hits. A limit of 0 is none.
-- KEYS: requests, tokens, month. ARGV: limits of requests, tokens, month's tokens, month's nano-dollars;
-- the request's tokens and nano-dollars; what a replica has admitted alone and not told yet: the month's
-- tokens and nano-dollars, and the last minute's requests and tokens.
local limit_requests, limit_tokens = tonumber(ARGV[1]), tonumber(ARGV[2])
local month_tokens, month_nano = tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens, nano = tonumber(ARGV[5]), tonumber(ARGV[6])
local MINUTE, MONTH = 120, 70 * 86400
local OK, REQUESTS, TOKENS, MONTH_TOKENS, MONTH_USD = 0, 1, 2, 3, 4

local spent_tokens, spent_nano = 0, 0
if month_tokens > 0 or month_nano > 0 then
  spent_tokens = redis.call('HINCRBY', KEYS[3], 't', ARGV[7])
  spent_nano = redis.call('HINCRBY', KEYS[3], 'n', ARGV[8])
  redis.call('EXPIRE', KEYS[3], MONTH)
end
if limit_requests > 0 and ARGV[9] ~= '0' then add(KEYS[1], now, ARGV[9], MINUTE) end
if limit_tokens > 0 and ARGV[10] ~= '0' then add(KEYS[2], now, ARGV[10], MINUTE) end
local sum_requests, live_requests = 0, {}
if limit_requests > 0 then sum_requests, live_requests = window(KEYS[1]) end
local sum_tokens, live_tokens = 0, {}
if limit_tokens > 0 then sum_tokens, live_tokens = window(KEYS[2]) end

local reason, wait = OK, 0
if month_tokens > 0 and spent_tokens >= month_tokens then
  reason = MONTH_TOKENS
elseif month_nano > 0 and spent_nano >= month_nano then
  reason = MONTH_USD
elseif limit_requests > 0 and sum_requests + 1 > limit_requests then
  reason, wait = REQUESTS, wait_ms(sum_requests, live_requests, 1, limit_requests)
elseif limit_tokens > 0 and sum_tokens + tokens > limit_tokens then
  reason, wait = TOKENS, wait_ms(sum_tokens, live_tokens, tokens, limit_tokens)
end
if reason == OK then
  if limit_requests > 0 then
    add(KEYS[1], now, 1, MINUTE)
    sum_requests = sum_requests + 1
  end
  if limit_tokens > 0 then
    add(KEYS[2], now, tokens, MINUTE)
    sum_tokens = sum_tokens + tokens
  end
  if month_tokens > 0 or month_nano > 0 then
    spent_tokens = redis.call('HINCRBY', KEYS[3], 't', tokens)
    spent_nano = redis.call('HINCRBY', KEYS[3], 'n', nano)
  end
end
return {reason, wait, sum_requests, sum_tokens, spent_tokens, spent_nano, now}
