"""Rules for single values: enum, bounds, lengths, patterns, and named validators."""

import base64
import binascii
import ipaddress
import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from twin.providers.gcp.schema import Field
from twin.wire.property_values import Json, as_object, show

_DURATION = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_CALL = re.compile(r"^(?P<name>[\w.]+)\((?P<args>[^)]*)\)$")
_PRIVATE = [ipaddress.IPv4Network(net) for net in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
_ASN_RANGES = ((64512, 65534), (4200000000, 4294967294), (16550, 16550))
_MIN_ROTATION_SECONDS = 86_400
_GO_DURATION = re.compile(r"[-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "ns": 1e-9}


def value_problems(field: Field, value: Any) -> list[str]:
    """Return the error of a known value of the right type; empty if it is valid."""
    rules = field.rules
    if not rules or (value == "" and rules.get("or_empty")):
        return []
    problems = [*_enum(rules, value), *_bounds(rules, value), *_lengths(rules, value)]
    is_key_rule = "labelKeyValidator" in rules.get("validator", ())
    for pattern in () if is_key_rule else rules.get("regex", ()):
        if isinstance(value, str) and not re.search(pattern, value):
            problems += [f"must match the pattern {pattern}, got {show(value)}"]
    names: list[str] = rules.get("validator", [])
    for name in [names] if isinstance(names, str) else names:
        problem = _named(name, rules, value)
        if problem is not None:
            problems.append(f"{problem}, got {show(value)}")
    return problems


def _enum(rules: Json, value: Any) -> list[str]:
    allowed: list[Any] | None = rules.get("enum")
    if allowed is None or value in allowed:
        return []
    if rules.get("enum_ignore_case") and str(value).lower() in {str(a).lower() for a in allowed}:
        return []
    shown = ", ".join(str(item) for item in allowed if item != "")
    return [f"must be one of {shown}, got {show(value)}"]


def _bounds(rules: Json, value: Any) -> list[str]:
    if not isinstance(value, int | float):
        return []
    low, high = rules.get("min"), rules.get("max")
    too_low, too_high = low is not None and value < low, high is not None and value > high
    if not too_low and not too_high:
        return []
    if low is not None and high is not None:
        return [f"must be {low} to {high}, got {value}"]
    return [
        f"must be at least {low}, got {value}"
        if too_low
        else f"must be at most {high}, got {value}"
    ]


def _lengths(rules: Json, value: Any) -> list[str]:
    if not isinstance(value, str):
        return []
    low, high = rules.get("min_len", 0), rules.get("max_len")
    if low <= len(value) and (high is None or len(value) <= high):
        return []
    limit = f"{low} characters or more" if high is None else f"{low} to {high} characters"
    return [f"must have {limit}, got {show(value)} ({len(value)})"]


def _named(name: str, rules: Json, value: Any) -> str | None:
    call = _CALL.match(name)
    arguments = [int(item) for item in call["args"].split(",")] if call else []
    check = _CHECKS.get(call["name"] if call else name)
    return None if check is None else check(value, rules, arguments)


def _cidr(value: Any, _rules: Json, _args: list[int]) -> str | None:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return "must be an IPv4 or IPv6 range in CIDR notation"
    return None if "/" in value else "must be an IPv4 or IPv6 range in CIDR notation"


def _cidr_network(value: Any, _rules: Json, args: list[int]) -> str | None:
    try:
        network = ipaddress.ip_network(value, strict=True)
    except ValueError:
        return "must be a range in CIDR notation without host bits"
    low, high = args
    if "/" not in value or not low <= network.prefixlen <= high:
        exact = f"/{low}" if low == high else f"/{low} to /{high}"
        return f"must be a range of size {exact}"
    return None


def _rfc1918(value: Any, rules: Json, args: list[int]) -> str | None:
    problem = _cidr_network(value, rules, args)
    if problem is not None:
        return problem
    network = ipaddress.ip_network(value)
    if not any(
        isinstance(network, ipaddress.IPv4Network) and network.subnet_of(net) for net in _PRIVATE
    ):
        return "must lie inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"
    return None


def _matches(pattern: str, meaning: str) -> Callable[[Any, Json, list[int]], str | None]:
    compiled = re.compile(pattern)

    def check(value: Any, _rules: Json, _args: list[int]) -> str | None:
        return None if compiled.search(str(value)) else meaning

    return check


def _date(value: Any, _rules: Json, _args: list[int]) -> str | None:
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or "T" not in value:
        return "must be a time in RFC 3339 with its zone, such as 2026-11-21T02:00:00Z"
    return None


def _json(value: Any, _rules: Json, _args: list[int]) -> str | None:
    try:
        json.loads(value)
    except ValueError as error:
        return f"must be JSON ({error})"
    return None


def _base64(value: Any, _rules: Json, _args: list[int]) -> str | None:
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error:
        return "must be base64"
    return None


def _inline(value: Any, rules: Json, args: list[int]) -> str | None:
    if any(key in rules for key in ("regex", "max_len")):  # its bounds stand on the field
        return None
    return _base64(value, rules, args)


def _duration(value: Any, _rules: Json, _args: list[int]) -> str | None:
    if (value != "0" and _DURATION.sub("", value) != "") or not value:
        return "must be a duration such as 4h or 90m"
    return None


def is_go_duration(value: Any) -> bool:
    """Return whether a value is text that Go's `time.ParseDuration` reads, such as `1h30m`."""
    return isinstance(value, str) and _GO_DURATION.fullmatch(value) is not None


def duration_seconds(text: Any) -> float:
    """Return the seconds of a Go duration such as `1h30m`; 0 for other text."""
    found = re.findall(r"([\d.]+)(ms|us|ns|h|m|s)", str(text))
    return sum(float(number) * _SECONDS[unit] for number, unit in found)


def _rotation(value: Any, _rules: Json, _args: list[int]) -> str | None:
    match = re.match(r"^([0-9.]*\d)s$", value)
    if match is None or len(match[1].partition(".")[2]) > 9:
        return "must be seconds with at most nine decimals and the suffix s, such as 7776000s"
    if float(match[1]) < _MIN_ROTATION_SECONDS:
        return f"must be at least {_MIN_ROTATION_SECONDS}s (one day)"
    return None


def _asn(value: Any, _rules: Json, _args: list[int]) -> str | None:
    if any(low <= value <= high for low, high in _ASN_RANGES):
        return None
    return "must be a private AS number (64512 to 65534, 4200000000 to 4294967294) or 16550"


def _label_keys(value: Any, rules: Json, _args: list[int]) -> str | None:
    mapping = as_object(value) or {}
    for key in mapping:
        for pattern in rules.get("regex", ()):
            if not re.search(pattern, key):
                return f"every key must match {pattern}; the key {show(key)} does not"
    return None


def _member(value: Any, _rules: Json, _args: list[int]) -> str | None:
    if value.startswith("deleted"):
        return "must not be a deleted principal"
    kinds = r"(.+:.+|projectOwners|projectReaders|projectWriters|allUsers|allAuthenticatedUsers)"
    if re.search(kinds, value) is None:
        return "must be a principal such as user:a@example.com or serviceAccount:EMAIL"
    return None


def _service(value: Any, _rules: Json, _args: list[int]) -> str | None:
    if "." not in value or value == "bigquery-json.googleapis.com":
        return "must be the domain name of a service, such as container.googleapis.com"
    return None


def _goal(value: Any, _rules: Json, _args: list[int]) -> str | None:
    return None if 0 < value <= 0.9999 else "must be greater than 0 and at most 0.9999"


def _is_true(value: Any, _rules: Json, _args: list[int]) -> str | None:
    return None if value is True else "must be true"


def _not_empty(value: Any, _rules: Json, _args: list[int]) -> str | None:
    return None if value else "must not be empty"


def _trailing_dot(value: Any, _rules: Json, _args: list[int]) -> str | None:
    return None if value.endswith(".") else "must end with a dot"


def _no_gcp_prefix(value: Any, _rules: Json, _args: list[int]) -> str | None:
    return "must not start with gcp-" if value.startswith("gcp-") else None


_TIME = r"([01][0-9]|2[0-3])"
_CHECKS: dict[str, Callable[[Any, Json, list[int]], str | None]] = {
    "verify.ValidateIpCidrRange": _cidr,
    "validation.IsCIDR": _cidr,
    "validation.IsCIDRNetwork": _cidr_network,
    "verify.ValidateRFC1918Network": _rfc1918,
    "verify.ValidateRFC3339Time": _matches(f"^{_TIME}:[0-5][0-9]$", "must be a time as HH:MM"),
    "verify.ValidateHourlyOnly": _matches(f"^{_TIME}:00$", "must be a full hour as HH:00"),
    "verify.ValidateRFC3339Date": _date,
    "verify.ValidateRFC6996Asn": _asn,
    "validateDuration": _duration,
    "validateIAMMember": _member,
    "validateRecordNameTrailingDot": _trailing_dot,
    "validateKmsCryptoKeyRotationPeriod": _rotation,
    "validateMonitoringSloGoal": _goal,
    "validateAvailabilitySli": _is_true,
    "validateProjectServiceService": _service,
    "ValidateWorkloadIdentityPoolId": _no_gcp_prefix,
    "ValidateWorkloadIdentityPoolProviderId": _no_gcp_prefix,
    "labelKeyValidator": _label_keys,
    "validation.StringIsJSON": _json,
    "validation.StringIsNotEmpty": _not_empty,
    "inline": _inline,
}
