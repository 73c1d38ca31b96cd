-- Opens the ledger of a team's month with what a replica knows of it.
-- KEYS: ledger, reservations. ARGV: the ledger that the replica saw last.
local l = ledger.open(KEYS[1], KEYS[2], ARGV)
ledger.close(l)
return {l.g, l.q, l.t, l.n}
