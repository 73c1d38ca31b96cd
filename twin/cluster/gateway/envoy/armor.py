"""Cloud Armor policies as an Envoy filter: a script that reads the rules of a route's backend.

The script is the same for every policy, and the rules are in the settings of routes. So counts
survive a change of routes, and end with the listener. Envoy has one worker thread, which sees every
request.
"""

from collections.abc import Iterable
from typing import Final

from twin.cluster.gateway.envoy.messages import EnvoyJson, script, typed
from twin.providers.gcp.checks import armor_language as language
from twin.providers.gcp.checks.armor_language import Expression
from twin.providers.gcp.resources.security_policies import Answer, ArmorRule, Limit, Rate

FILTER: Final = "twin.armor"

_MOST_KEYS: Final = 10_000
_SCRIPT: Final = """
local LARGEST_KEY = 128
local windows, bans, known, most = {}, {}, 0, MOST_KEYS

local function path_of(headers)
  return (headers:get(":path") or ""):match("^[^?#]*")
end

local function holds(when, headers)
  local kind = when.kind
  if kind == "has" then
    return headers:get(when.header) ~= nil
  elseif kind == "number" then
    local text = (headers:get(when.header) or ""):match("^%-?%d+$")
    local number = text and tonumber(text)
    return number ~= nil and number >= when.low and number <= when.high
  elseif kind == "header" then
    return headers:get(when.header) == when.text
  elseif kind == "path" then
    return path_of(headers) == when.text
  elseif kind == "prefix" then
    return path_of(headers):sub(1, #when.text) == when.text
  elseif kind == "not" then
    return not holds(when.of, headers)
  end
  for _, each in ipairs(when.of) do
    if holds(each, headers) == (kind == "any") then return kind == "any" end
  end
  return kind == "all"
end

local function cookie(headers, name)
  for key, value in (headers:get("cookie") or ""):gmatch("([^=;%s]+)=([^;]*)") do
    if key:lower() == name then return value end
  end
end

local function address_of(handle)
  return handle:streamInfo():downstreamDirectRemoteAddress():match("^(.*):%d+$")
end

local function value_of(handle, key)
  local headers = handle:headers()
  if key.type == "IP" or key.type == "USER_IP" then return address_of(handle) end
  if key.type == "XFF_IP" then
    local first = (headers:get("x-forwarded-for") or ""):match("^%s*([^,%s]+)") or ""
    local is_address = first:match("^%d+%.%d+%.%d+%.%d+$") or first:match("^[%x:]*:[%x:.]+$")
    return is_address and first or address_of(handle)
  end
  if key.type == "HTTP_HEADER" then return headers:get(key.name) end
  if key.type == "HTTP_COOKIE" then return cookie(headers, key.name) end
  if key.type == "HTTP_PATH" then return path_of(headers) end
  if key.type == "SNI" then return handle:streamInfo():requestedServerName() end
end

local function forget(now)
  known = 0
  for key, window in pairs(windows) do
    if now >= window.ends then windows[key] = nil else known = known + 1 end
  end
  for key, ends in pairs(bans) do
    if now >= ends then bans[key] = nil end
  end
  most = math.max(MOST_KEYS, 2 * known) -- a scan has at least half as many new keys before it
end

local function is_above(key, rate, now)
  local window = windows[key]
  if window == nil or now >= window.ends then
    if window == nil then
      if known >= most then forget(now) end
      known = known + 1
    end
    window = {count = 0, ends = now + 1000 * rate.seconds}
    windows[key] = window
  end
  window.count = window.count + 1
  return window.count > rate.count
end

local function is_over(handle, scope, limit)
  local parts = {scope}
  for _, key in ipairs(limit.keys or {}) do
    local value = value_of(handle, key) or ""
    table.insert(parts, key.type .. "=" .. value:sub(1, LARGEST_KEY))
  end
  local key = table.concat(parts, "|")
  local now = handle:timestamp(EnvoyTimestampResolution.MILLISECOND)
  local over = is_above(key, limit.rate, now)
  if limit.ban_seconds ~= nil then
    local bans_it = over and (limit.ban == nil or is_above(key .. "|ban", limit.ban, now))
    if bans_it then bans[key] = now + 1000 * limit.ban_seconds end
    over = over or (bans[key] ~= nil and now < bans[key])
  end
  return over
end

local function respond(handle, answer)
  local headers = {[":status"] = tostring(answer.status)}
  if answer.location ~= nil then headers["location"] = answer.location end
  handle:respond(headers, "refused by the Cloud Armor policy")
end

function envoy_on_request(handle)
  local context = handle:filterContext()
  local rules, backend = context:get("rules"), context:get("backend")
  for _, rule in ipairs(rules or {}) do
    if rule.when == nil or holds(rule.when, handle:headers()) then
      local limit = rule.limit
      if rule.answer ~= nil then
        respond(handle, rule.answer)
      elseif limit ~= nil and is_over(handle, backend .. "|" .. rule.priority, limit) then
        respond(handle, limit.answer)
      end
      return
    end
  end
end
"""


def armor_filter(most_keys: int = _MOST_KEYS) -> EnvoyJson:
    """Return the filter, which refuses nothing by itself.

    Args:
        most_keys: Number of keys beyond which those whose time is over are forgotten.
    """
    return script(FILTER, f"local MOST_KEYS = {most_keys}{_SCRIPT}")


def armor_route(backend: str, rules: Iterable[ArmorRule]) -> EnvoyJson:
    """Return the setting of the filter for the routes of a backend, which counts by itself."""
    context = {"backend": backend, "rules": [_rule(each) for each in rules]}
    return typed("lua_route", filter_context=context)


def _rule(rule: ArmorRule) -> EnvoyJson:
    found: EnvoyJson = {"priority": rule.priority}
    if rule.when is not None:
        found["when"] = _condition(rule.when)
    if rule.answer is not None:
        found["answer"] = _answer(rule.answer)
    if rule.limit is not None:
        found["limit"] = _limit(rule.limit)
    return found


def _limit(limit: Limit) -> EnvoyJson:
    found: EnvoyJson = {
        "answer": _answer(limit.answer),
        "keys": [{"type": kind, "name": name} for kind, name in limit.keys],
        "rate": _rate(limit.rate),
    }
    if limit.ban_seconds is not None:
        found["ban_seconds"] = limit.ban_seconds
    if limit.ban is not None:
        found["ban"] = _rate(limit.ban)
    return found


def _rate(rate: Rate) -> EnvoyJson:
    return {"count": rate.count, "seconds": rate.seconds}


def _answer(answer: Answer) -> EnvoyJson:
    found: EnvoyJson = {"status": answer.status}
    return found | ({"location": answer.location} if answer.location else {})


def _condition(when: Expression) -> EnvoyJson:
    match when:
        case language.HasHeader():
            return {"kind": "has", "header": when.header}
        case language.HeaderNumber():
            return {"kind": "number", "header": when.header, "low": when.low, "high": when.high}
        case language.HeaderIs():
            return {"kind": "header", "header": when.header, "text": when.value}
        case language.Path():
            return {"kind": "prefix" if when.is_prefix else "path", "text": when.text}
        case language.Not():
            return {"kind": "not", "of": _condition(when.of)}
        case language.All():
            return {"kind": "all", "of": [_condition(each) for each in when.of]}
        case language.Any():
            return {"kind": "any", "of": [_condition(each) for each in when.of]}
