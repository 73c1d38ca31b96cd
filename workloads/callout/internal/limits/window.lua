-- A sliding window of 60 s as 61 counters of a second each: what it lets through in any 60 s is never
-- more than its limit. Redis' own clock counts, so that replicas need not agree about time.
local SECONDS = 61
local time = redis.call('TIME')
local now = tonumber(time[1])
local now_ms = now * 1000 + math.floor(tonumber(time[2]) / 1000)

-- Returns the sum of a window, and its seconds in order; forgets what has left it.
local function window(key)
  local all = redis.call('HGETALL', key)
  local sum, live, gone = 0, {}, {}
  for i = 1, #all, 2 do
    local second = tonumber(all[i])
    if second <= now - SECONDS then
      gone[#gone + 1] = all[i]
    else
      sum = sum + tonumber(all[i + 1])
      live[#live + 1] = {second, tonumber(all[i + 1])}
    end
  end
  if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
  table.sort(live, function(a, b) return a[1] < b[1] end)
  return sum, live
end

-- Returns the milliseconds until a window has room for an amount.
local function wait_ms(sum, live, amount, limit)
  for _, counter in ipairs(live) do
    sum = sum - counter[2]
    if sum + amount <= limit then return math.max(1, (counter[1] + SECONDS) * 1000 - now_ms) end
  end
  return 60000
end

local function add(key, second, amount, lifetime)
  redis.call('HINCRBY', key, second, amount)
  redis.call('EXPIRE', key, lifetime)
end
