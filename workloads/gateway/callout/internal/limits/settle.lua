-- Replaces the reservation of a request with what it used, once: a call whose reply was lost can be repeated.
-- KEYS: tokens, ledger, reservations, mark of the request. ARGV: second of the request, tokens and nano-dollars
-- that it used, flags of a limit of tokens and of a month, change of the minute's tokens, reservation, seconds of
-- the mark, the ledger that the replica saw last.
local second, change = tonumber(ARGV[1]), tonumber(ARGV[6])
-- What is used above the estimate counts now, what is less counts where the estimate did.
if change > 0 then second = now end
if ARGV[4] == '1' and change ~= 0 and second > now - SECONDS then add(window(KEYS[1]), second, change) end
if ARGV[5] ~= '1' then return {0, 0, 0, 0, 0, 0} end
local l = ledger.open(KEYS[2], KEYS[3], {ARGV[9], ARGV[10], ARGV[11], ARGV[12]})
ledger.release(l, ARGV[7])
if redis.call('SET', KEYS[4], '1', 'NX', 'EX', ARGV[8]) then ledger.use(l, tonumber(ARGV[2]), tonumber(ARGV[3])) end
ledger.close(l)
return {l.t + l.rt, l.n + l.rn, l.g, l.q, l.t, l.n}
