"""Cloud Armor policies: Google's checks, and the rules that are enforced."""

import re
from dataclasses import dataclass, replace
from typing import Any, Final

from twin.providers.gcp.checks.armor_language import Expression, ExpressionError, parse
from twin.wire.property_values import CloudError, Json, as_list, as_object, get_path
from twin.world.rules import all_rules

_DENY: Final = re.compile(r"deny\(([0-9]{3})\)")


@dataclass(frozen=True)
class Answer:
    """Response of a policy instead of a backend's."""

    status: int
    location: str = ""
    """Target of a redirect."""


@dataclass(frozen=True)
class Rate:
    """A number of requests in an interval."""

    count: int
    seconds: int


@dataclass(frozen=True)
class Limit:
    """A rate, counted for each value of a key."""

    rate: Rate
    answer: Answer
    """For requests above the rate, and for all requests of a banned key."""
    keys: tuple[tuple[str, str], ...] = ()
    """Types, and names of a header or a cookie; empty to count all requests together."""
    ban_seconds: int | None = None
    """Duration of a ban after the rate was exceeded; None if the rule bans nobody."""
    ban: Rate | None = None
    """Rate of requests above `rate` that bans a key; None to ban it for the first of them."""


@dataclass(frozen=True)
class ArmorRule:
    """A rule: what it applies to, and what it does."""

    priority: int
    when: Expression | None = None
    """None for every request."""
    answer: Answer | None = None
    """None to pass a request on."""
    limit: Limit | None = None


def check_security_policy(values: Json) -> None:
    """Reject a policy that Google would reject (rules armor.expression, armor.denial, armor.rate).

    Raises:
        CloudError: the first thing that is wrong.
    """
    statuses = [int(each) for each in all_rules()["armor.denial"].value]
    for at, rule in enumerate(_rules(values)):
        status = _DENY.fullmatch(str(rule.get("action")))
        if status is not None and int(status[1]) not in statuses:
            known = ", ".join(f"deny({each})" for each in statuses)
            raise _refused(f"rules[{at}].action", f"one of {known}", rule.get("action"))
        _check_rate(at, rule)
        expression = get_path(rule, "match.expr.expression")
        if expression is None:
            continue
        try:
            parse(str(expression))
        except ExpressionError as error:
            where = f"rules[{at}].match.expr.expression"
            raise CloudError(400, f"Invalid value for '{where}': it {error}", "invalid") from None


def _check_rate(at: int, rule: Json) -> None:
    """Reject the rate of a rule.

    Raises:
        CloudError: It is beyond what its action allows, its interval is not one of Google's, or its
            refusal has another status.
    """
    known: dict[str, Any] = all_rules()["armor.rate"].value
    most: dict[str, int] = known["most"]
    action = str(rule.get("action"))
    if action not in most:
        return
    where = f"rules[{at}].rateLimitOptions"
    count = get_path(rule, "rateLimitOptions.rateLimitThreshold.count")
    if isinstance(count, int | float) and not 1 <= count <= most[action]:
        limits = f"from 1 to {most[action]} for {action}"
        raise _refused(f"{where}.rateLimitThreshold.count", limits, count)
    for name in ("rateLimitThreshold", "banThreshold"):
        seconds = get_path(rule, f"rateLimitOptions.{name}.intervalSec")
        if seconds is not None and seconds not in known["seconds"]:
            intervals = f"one of {', '.join(map(str, known['seconds']))}"
            raise _refused(f"{where}.{name}.intervalSec", intervals, seconds)
    exceeded = get_path(rule, "rateLimitOptions.exceedAction")
    if exceeded is not None and exceeded not in known["refusals"]:
        raise _refused(f"{where}.exceedAction", f"one of {', '.join(known['refusals'])}", exceeded)


def enforced(values: Json) -> tuple[ArmorRule, ...]:
    """Return the rules of a policy that the twin enforces, in the order of their priorities.

    The first rule that matches decides: a request within the rate of a rule is passed on. So a rule
    for every address is the last one. Rules for single addresses, and those in preview, are left
    out. Empty if no rule refuses anything.
    """
    found: list[ArmorRule] = []
    for rule in sorted(_rules(values), key=lambda each: int(each.get("priority", 0))):
        expression = get_path(rule, "match.expr.expression")
        ranges = as_list(get_path(rule, "match.config.srcIpRanges")) or []
        if rule.get("preview") is True or (expression is None and "*" not in ranges):
            continue
        found.append(_rule(rule, None if expression is None else parse(str(expression))))
        if expression is None:
            break
    if all(each.answer is None and each.limit is None for each in found):
        return ()
    return tuple(found)


def _rule(rule: Json, when: Expression | None) -> ArmorRule:
    action, priority = str(rule.get("action")), int(rule.get("priority", 0))
    options = as_object(rule.get("rateLimitOptions"))
    if action in all_rules()["armor.rate"].value["most"] and options is not None:
        return ArmorRule(priority, when, limit=_limit(action, options))
    if action.startswith("deny") or action == "redirect":
        return ArmorRule(priority, when, _answer(action, as_object(rule.get("redirectOptions"))))
    return ArmorRule(priority, when)


def _limit(action: str, options: Json) -> Limit | None:
    rate = _rate(options, "rateLimitThreshold")
    if rate is None:
        return None
    several = [as_object(each) or {} for each in as_list(options.get("enforceOnKeyConfigs")) or []]
    keys = [(each.get("enforceOnKeyType"), each.get("enforceOnKeyName")) for each in several]
    if not keys and options.get("enforceOnKey"):
        keys = [(options["enforceOnKey"], options.get("enforceOnKeyName"))]
    limit = Limit(
        rate=rate,
        answer=_answer(
            str(options.get("exceedAction")), as_object(options.get("exceedRedirectOptions"))
        ),
        keys=tuple((str(kind), str(name or "").lower()) for kind, name in keys),
    )
    if action == "throttle":
        return limit
    seconds = int(options.get("banDurationSec") or 0)
    return replace(limit, ban_seconds=seconds, ban=_rate(options, "banThreshold"))


def _rate(options: Json, name: str) -> Rate | None:
    count, seconds = (get_path(options, f"{name}.{each}") for each in ("count", "intervalSec"))
    return None if count is None or seconds is None else Rate(int(count), int(seconds))


def _answer(action: str, redirect: Json | None) -> Answer:
    """Return the response of an action; 403 instead of a redirect to reCAPTCHA."""
    status = _DENY.fullmatch(action)
    if status is not None:
        return Answer(int(status[1]))
    target = (redirect or {}).get("target")
    return Answer(403) if target is None else Answer(302, str(target))


def _rules(values: Json) -> list[Json]:
    return [as_object(each) or {} for each in as_list(values.get("rules")) or []]


def _refused(field: str, rule: str, value: object) -> CloudError:
    return CloudError(400, f"Invalid value for '{field}': must be {rule}, got {value}", "invalid")
