-- Counts an invalid credential of one address, up to one more than is allowed, and returns the sum.
-- KEYS: the address. ARGV: how many are allowed a minute.
local sum = window(KEYS[1])
if sum <= tonumber(ARGV[1]) then
  add(KEYS[1], now, 1, 120)
  sum = sum + 1
end
return sum
