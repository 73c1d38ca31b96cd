-- Counts an invalid credential of one address, up to one more than is allowed, and returns the sum.
-- KEYS: the address. ARGV: how many are allowed a minute.
local w = window(KEYS[1])
if w.sum <= tonumber(ARGV[1]) then add(w, now, 1) end
return w.sum
