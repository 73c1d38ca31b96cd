-- Admits one request, or says which limit it hits. A limit of 0 is none.
-- KEYS: requests, tokens, month. ARGV: limits of requests, tokens, month's tokens, month's nano-dollars;
-- the request's tokens and nano-dollars; what a replica has admitted alone and not told yet: the month's
-- tokens and nano-dollars, and the last minute's requests and tokens.
local limit_requests, limit_tokens = tonumber(ARGV[1]), tonumber(ARGV[2])
local month_tokens, month_nano = tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens, nano = tonumber(ARGV[5]), tonumber(ARGV[6])
local MONTH = 70 * 86400
local OK, REQUESTS, TOKENS, MONTH_TOKENS, MONTH_USD = 0, 1, 2, 3, 4

local spent_tokens, spent_nano = 0, 0
if month_tokens > 0 or month_nano > 0 then
  spent_tokens = redis.call('HINCRBY', KEYS[3], 't', ARGV[7])
  spent_nano = redis.call('HINCRBY', KEYS[3], 'n', ARGV[8])
  redis.call('EXPIRE', KEYS[3], MONTH)
end
local requests, used = {sum = 0}, {sum = 0}
if limit_requests > 0 then
  requests = window(KEYS[1])
  if ARGV[9] ~= '0' then add(requests, now, tonumber(ARGV[9])) end
end
if limit_tokens > 0 then
  used = window(KEYS[2])
  if ARGV[10] ~= '0' then add(used, now, tonumber(ARGV[10])) end
end

local reason, wait = OK, 0
if month_tokens > 0 and spent_tokens >= month_tokens then
  reason = MONTH_TOKENS
elseif month_nano > 0 and spent_nano >= month_nano then
  reason = MONTH_USD
elseif limit_requests > 0 and requests.sum + 1 > limit_requests then
  reason, wait = REQUESTS, wait_ms(requests, 1, limit_requests)
elseif limit_tokens > 0 and used.sum + tokens > limit_tokens then
  reason, wait = TOKENS, wait_ms(used, tokens, limit_tokens)
end
if reason == OK then
  if limit_requests > 0 then add(requests, now, 1) end
  if limit_tokens > 0 then add(used, now, tokens) end
  if month_tokens > 0 or month_nano > 0 then
    spent_tokens = redis.call('HINCRBY', KEYS[3], 't', tokens)
    spent_nano = redis.call('HINCRBY', KEYS[3], 'n', nano)
  end
end
return {reason, wait, requests.sum, used.sum, spent_tokens, spent_nano, now}
