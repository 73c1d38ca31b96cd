-- Admits one request, or says which limit it hits. A limit of 0 is none.
-- KEYS: requests, tokens, ledger, reservations. ARGV: limits of requests, tokens, month's tokens, month's
-- nano-dollars; the request's tokens and nano-dollars; what the replica alone knows of: the month's tokens and
-- nano-dollars, which it settles later, and the last minute's requests and tokens, which count from now on; the
-- reservation and its seconds; the ledger that the replica saw last.
local limit_requests, limit_tokens = tonumber(ARGV[1]), tonumber(ARGV[2])
local month_tokens, month_nano = tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens, nano = tonumber(ARGV[5]), tonumber(ARGV[6])
local alone_tokens, alone_nano = tonumber(ARGV[7]), tonumber(ARGV[8])
local OK, REQUESTS, TOKENS, MONTH_TOKENS, MONTH_USD, HELD_TOKENS, HELD_USD = 0, 1, 2, 3, 4, 5, 6

local has_month = month_tokens > 0 or month_nano > 0
local l = {t = 0, n = 0, rt = 0, rn = 0, g = 0, q = 0}
if has_month then l = ledger.open(KEYS[3], KEYS[4], {ARGV[13], ARGV[14], ARGV[15], ARGV[16]}) end
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
if month_tokens > 0 and l.t >= month_tokens then
  reason = MONTH_TOKENS
elseif month_nano > 0 and l.n >= month_nano then
  reason = MONTH_USD
elseif month_tokens > 0 and l.t + l.rt + alone_tokens >= month_tokens then
  reason, wait = HELD_TOKENS, 1000
elseif month_nano > 0 and l.n + l.rn + alone_nano >= month_nano then
  reason, wait = HELD_USD, 1000
elseif limit_requests > 0 and requests.sum + 1 > limit_requests then
  reason, wait = REQUESTS, wait_ms(requests, 1, limit_requests)
elseif limit_tokens > 0 and used.sum + tokens > limit_tokens then
  reason, wait = TOKENS, wait_ms(used, tokens, limit_tokens)
end
if reason == OK then
  if limit_requests > 0 then add(requests, now, 1) end
  if limit_tokens > 0 then add(used, now, tokens) end
  if has_month and (tokens > 0 or nano > 0) then
    ledger.reserve(l, ARGV[11], tokens, nano, tonumber(ARGV[12]))
  end
end
if has_month then ledger.close(l) end
return {reason, wait, requests.sum, used.sum, l.t + l.rt, l.n + l.rn, now, l.g, l.q, l.t, l.n}
