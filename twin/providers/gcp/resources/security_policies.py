"""Cloud Armor policies: Google's checks, and the order of their rules."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from twin.providers.gcp.checks.armor_language import (
    All,
    Expression,
    ExpressionError,
    Not,
    parse,
)
from twin.wire.property_values import CloudError, Json, as_list, as_object, get_path
from twin.world.rules import all_rules

_DENY: Final = re.compile(r"deny\(([0-9]{3})\)")


@dataclass(frozen=True)
class Denial:
    """Requests that a policy refuses, whatever their rate."""

    status: int
    when: Expression


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
        CloudError: It is beyond what its action allows, or its refusal has another status.
    """
    most: dict[str, int] = all_rules()["armor.rate"].value["most"]
    action = str(rule.get("action"))
    if action not in most:
        return
    where = f"rules[{at}].rateLimitOptions"
    count = get_path(rule, "rateLimitOptions.rateLimitThreshold.count")
    if isinstance(count, int | float) and not 1 <= count <= most[action]:
        limits = f"from 1 to {most[action]} for {action}"
        raise _refused(f"{where}.rateLimitThreshold.count", limits, count)
    exceeded = get_path(rule, "rateLimitOptions.exceedAction")
    known = all_rules()["armor.rate"].value["refusals"]
    if exceeded is not None and exceeded not in known:
        raise _refused(f"{where}.exceedAction", f"one of {', '.join(known)}", exceeded)


def denials(values: Json) -> Iterator[Denial]:
    """Yield what the rules of a policy deny by an expression.

    The first rule that matches decides, in the order of priorities. A rule for every address ends
    the list: a throttled request within the rate is allowed.
    """
    allowed: list[Expression] = []
    for rule in sorted(_rules(values), key=lambda each: int(each.get("priority", 0))):
        expression = get_path(rule, "match.expr.expression")
        if rule.get("preview") is True:
            continue
        if expression is None:
            ranges = as_list(get_path(rule, "match.config.srcIpRanges")) or []
            if "*" in ranges:
                return
            continue  # the twin's clients have addresses of this machine
        when = parse(str(expression))
        status = _DENY.fullmatch(str(rule.get("action")))
        if status is None:
            allowed.append(when)
        else:
            exceptions = tuple(Not(each) for each in allowed)
            yield Denial(int(status[1]), All((*exceptions, when)) if exceptions else when)


def _rules(values: Json) -> list[Json]:
    return [as_object(each) or {} for each in as_list(values.get("rules")) or []]


def _refused(field: str, rule: str, value: object) -> CloudError:
    return CloudError(400, f"Invalid value for '{field}': must be {rule}, got {value}", "invalid")
