-- A sliding window of 60 s as 61 counters of a second each: what it lets through in any 60 s is never
-- more than its limit. Redis' own clock counts, so that replicas need not agree about time.
--
-- A window is a hash: a counter for each second, their sum (s), and the first second that may have a
-- counter (f). The sum makes a request cost the same for any number of counters.
local SECONDS, MINUTE = 61, 120
local time = redis.call('TIME')
local now = tonumber(time[1])
local now_ms = now * 1000 + math.floor(tonumber(time[2]) / 1000)

-- Returns a window without the seconds that have left it.
local function window(key)
  local found = redis.call('HMGET', key, 's', 'f')
  local w = {key = key, sum = tonumber(found[1] or 0), from = tonumber(found[2] or now)}
  local oldest = now - SECONDS + 1
  if w.from < oldest then
    local gone = {}
    for second = w.from, math.min(oldest - 1, w.from + MINUTE) do gone[#gone + 1] = tostring(second) end
    for _, amount in ipairs(redis.call('HMGET', key, unpack(gone))) do
      w.sum = w.sum - tonumber(amount or 0)
    end
    redis.call('HDEL', key, unpack(gone))
    w.from = oldest
    redis.call('HSET', key, 's', w.sum, 'f', w.from)
  end
  return w
end

-- Adds an amount, which can be negative, to a second of a window.
local function add(w, second, amount)
  w.sum, w.from = w.sum + amount, math.min(w.from, second)
  if redis.call('HINCRBY', w.key, second, amount) == amount then redis.call('EXPIRE', w.key, MINUTE) end
  redis.call('HSET', w.key, 's', w.sum, 'f', w.from)
end

-- Returns the milliseconds until a window has room for an amount.
local function wait_ms(w, amount, limit)
  local all, live, sum = redis.call('HGETALL', w.key), {}, w.sum
  for i = 1, #all, 2 do
    local second = tonumber(all[i])
    if second then live[#live + 1] = {second, tonumber(all[i + 1])} end
  end
  table.sort(live, function(a, b) return a[1] < b[1] end)
  for _, counter in ipairs(live) do
    sum = sum - counter[2]
    if sum + amount <= limit then return math.max(1, (counter[1] + SECONDS) * 1000 - now_ms) end
  end
  return 60000
end

