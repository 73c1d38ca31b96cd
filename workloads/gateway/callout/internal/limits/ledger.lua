-- The ledger of a team's month: what settled requests used, and what requests in flight have reserved.
--
-- It is a hash: used tokens and nano-dollars (t, n), reserved ones (rt, rn), the number of changes (q) and
-- the generation (g), the time in microseconds at which the hash was made. A store that lost its memory
-- makes a new generation. Replicas know the last state that they saw of an older one; the latest of these
-- states is the base (bg, bq, bt, bn) of the new one, so that a month outlives its store.
--
-- Each reservation is also a member ID:TOKENS:NANO of a sorted set, by the second at which it ends. Replicas
-- renew those of long answers, so that only those of a replica that died end by themselves.
local MONTH = 70 * 86400

local function whole(number) return string.format('%.0f', number) end

local ledger = {}

-- Opens the ledger at two keys. known is what the replica saw last: generation, changes, tokens, nano-dollars.
function ledger.open(key, held, known)
  local found = redis.call('HMGET', key, 'g', 't', 'n', 'rt', 'rn', 'q', 'bg', 'bq', 'bt', 'bn')
  local l = {key = key, held = held, names = {'g', 't', 'n', 'rt', 'rn', 'q', 'bg', 'bq', 'bt', 'bn'}}
  for at, name in ipairs(l.names) do l[name] = tonumber(found[at] or 0) end
  if l.g == 0 then l.g = now * 1000000 + tonumber(time[2]) end
  local g, q = tonumber(known[1]), tonumber(known[2])
  if g > 0 and g < l.g and (g > l.bg or (g == l.bg and q > l.bq)) then
    l.t, l.n = l.t + tonumber(known[3]) - l.bt, l.n + tonumber(known[4]) - l.bn
    l.bg, l.bq, l.bt, l.bn = g, q, tonumber(known[3]), tonumber(known[4])
    l.q = l.q + 1 -- so that replicas prefer this state to the one without its base
  end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', held, '-inf', now, 'LIMIT', 0, 100)) do
    ledger.release(l, member)
  end
  return l
end

-- Ends a reservation, if it has not ended.
function ledger.release(l, member)
  if redis.call('ZREM', l.held, member) == 0 then return end
  local tokens, nano = string.match(member, ':(%-?%d+):(%-?%d+)$')
  l.rt, l.rn = l.rt - tonumber(tokens), l.rn - tonumber(nano)
end

function ledger.reserve(l, member, tokens, nano, seconds)
  redis.call('ZADD', l.held, now + seconds, member)
  redis.call('EXPIRE', l.held, MONTH)
  l.rt, l.rn = l.rt + tokens, l.rn + nano
end

function ledger.use(l, tokens, nano)
  l.t, l.n, l.q = l.t + tokens, l.n + nano, l.q + 1
end

function ledger.close(l)
  local fields = {}
  for _, name in ipairs(l.names) do
    fields[#fields + 1] = name
    fields[#fields + 1] = whole(l[name])
  end
  redis.call('HSET', l.key, unpack(fields))
  redis.call('EXPIRE', l.key, MONTH)
end
