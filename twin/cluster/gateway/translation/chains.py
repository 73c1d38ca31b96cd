"""Chains of an extension: match conditions and called programs."""

import json
import re
from dataclasses import dataclass, replace
from typing import Final

from twin.cluster.gateway.translation.apigee import BACKEND, apigee_processor
from twin.cluster.gateway.translation.backends import processor_of
from twin.cluster.gateway.translation.cel import CelError, Expression, parse
from twin.cluster.gateway.translation.conditions import Problem
from twin.cluster.gateway.translation.model import Chain, Endpoint, Processor
from twin.cluster.gateway.translation.objects import (
    JsonObject,
    Snapshot,
    items,
    key_of,
    mapping,
    strings,
)
from twin.cluster.gateway.translation.policies import timeout_of
from twin.world.rules import all_rules

_REQUEST: Final = ("RequestHeaders", "RequestBody", "RequestTrailers")
_RESPONSE: Final = ("ResponseHeaders", "ResponseBody", "ResponseTrailers")
_DUPLEX: Final = "FullDuplexStreamed"
_SETTINGS: Final = "model_armor_settings"
_DURATION: Final = re.compile(r"(\d+)(h|ms|m|s)")
_UNIT_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@dataclass(frozen=True)
class Kind:
    """The capabilities of a kind of extension."""

    name: str
    cluster: str
    """Prefix of its programs' names."""
    stage: str
    """Its name in the metadata that a program receives."""
    events: tuple[str, ...]
    default_events: tuple[str, ...]
    rule: str
    """Rule with the supported gateway classes."""
    per_chain: str
    """Rule with the maximum number of extensions in a chain."""


ROUTING: Final = Kind(
    name="GCPRoutingExtension",
    cluster="extension",
    stage="lb_route_extension",
    events=_REQUEST,
    default_events=("RequestHeaders",),
    rule="gateway.extension.classes",
    per_chain="gateway.extension.chain",
)
TRAFFIC: Final = Kind(
    name="GCPTrafficExtension",
    cluster="traffic",
    stage="lb_traffic_extension",
    events=_REQUEST + _RESPONSE,
    default_events=(),
    rule="gateway.traffic-extension.classes",
    per_chain="gateway.traffic-extension.chain",
)
KINDS: Final = (ROUTING, TRAFFIC)


def check_class(kind: Kind, gateway_class: str) -> None:
    """Check that a gateway class supports a kind of extension.

    Raises:
        Problem: the class does not support it.
    """
    classes: list[str] = all_rules()[kind.rule].value
    if gateway_class not in classes:
        text = f"{kind.name}: gateway class must be one of {', '.join(classes)}"
        raise Problem("UnsupportedValue", f"{text}, got {gateway_class}")


def chains_of(
    snapshot: Snapshot, kind: Kind, extension: JsonObject
) -> tuple[tuple[Chain, ...], Problem | None]:
    """Return the chains of an extension, in the order in which they are tried.

    Returns:
        The chains, and the missing Service if any. A traffic extension without its Service is still
        called and fails, so that a missing guard does not let requests pass.

    Raises:
        Problem: Google's load balancer rejects the combination, the twin cannot run it, or the
            Service of a routing extension is missing.
    """
    missing: list[Problem] = []
    most = int(all_rules()[kind.per_chain].value)
    found: list[Chain] = []
    for chain in extension["spec"]["extensionChains"]:
        if len(chain["extensions"]) > most:
            text = f"chain {chain['name']}.extensions: must be at most {most}"
            raise Problem("UnsupportedValue", f"{text}, got {len(chain['extensions'])}")
        namespace, name = key_of(extension)
        conditions = _conditions(chain)
        processors = tuple(
            _processor(snapshot, kind, (namespace, name, chain["name"]), item, missing)
            for item in chain["extensions"]
        )
        found.append(Chain(f"{namespace}/{name}/{chain['name']}", processors, conditions))
        if not conditions:
            break  # it takes every request that is left
    return tuple(found), next(iter(missing), None)


def closed_chains(kind: Kind, extension: JsonObject) -> tuple[Chain, ...]:
    """Return the chains of an extension that cannot run (rule gateway.extension.unsupported).

    They call a program that is not there, so every request fails. There are none if all programs
    of the extension may fail.
    """
    programs = [
        item for chain in extension["spec"]["extensionChains"] for item in chain["extensions"]
    ]
    if all(item.get("failOpen") or item.get("observabilityMode") for item in programs):
        return ()
    namespace, name = key_of(extension)
    nobody = Processor(f"{kind.cluster}/{namespace}/{name}/closed", (), events=("RequestHeaders",))
    return (Chain(f"{namespace}/{name}/closed", (nobody,)),)


def _conditions(chain: JsonObject) -> tuple[Expression, ...]:
    where = f"chain {chain['name']}.matchCondition"
    found: list[Expression] = []
    for matcher in items(mapping(chain, "matchCondition"), "celExpressions"):
        if matcher.get("backendRefs"):
            text = f"{where}: the twin matches no backendRefs, got {matcher['backendRefs']}"
            raise Problem("UnsupportedValue", text)
        if matcher.get("celMatcher") is None:
            return ()
        expression = str(matcher["celMatcher"]).strip()
        if expression == "true":
            return ()
        try:
            found.append(parse(expression))
        except CelError as error:
            raise Problem("UnsupportedValue", f"{where}: {error}") from error
    return tuple(found)


def _processor(
    snapshot: Snapshot,
    kind: Kind,
    owner: tuple[str, str, str],
    item: JsonObject,
    missing: list[Problem],
) -> Processor:
    namespace, name, chain = owner
    where = f"extension {item['name']}"
    events = tuple(strings(item, "supportedEvents")) or kind.default_events
    _check_events(kind, where, item, events)
    metadata = _metadata(where, item)
    cluster = f"{kind.cluster}/{namespace}/{name}/{chain}/{item['name']}"
    try:
        found = _called(snapshot, where, namespace, cluster, item)
    except Problem as problem:
        if kind is ROUTING or problem.reason != "BackendNotFound":
            raise
        missing.append(problem)
        found = Processor(cluster, ())
    is_google = item.get("backendRef") is None
    return replace(
        found,
        fail_open=bool(item.get("failOpen", False)),
        authority=item.get("authority", found.authority),
        events=events,
        full_duplex=is_google or item.get("requestBodySendMode") == _DUPLEX,
        full_duplex_response=is_google or item.get("responseBodySendMode") == _DUPLEX,
        timeout_seconds=_timeout(where, item),
        forward_headers=tuple(name.lower() for name in strings(item, "forwardHeaders")),
        namespace=f"com.google.{kind.stage}.{name}.{chain}.{item['name']}",
        metadata=metadata,
        observes=bool(item.get("observabilityMode", False)),
    )


def _check_events(kind: Kind, where: str, item: JsonObject, events: tuple[str, ...]) -> None:
    if not events:
        text = f"{where}.supportedEvents: must have at least one event, got none"
        raise Problem("UnsupportedValue", text)
    if not set(events) <= set(kind.events):
        extra = ", ".join(sorted(set(events) - set(kind.events)))
        text = f"{where}.supportedEvents: a routing extension sees requests only, got {extra}"
        raise Problem("UnsupportedValue", text)
    for field, needed in (
        ("requestBodySendMode", ("RequestBody", "RequestTrailers")),
        ("responseBodySendMode", ("ResponseBody", "ResponseTrailers")),
    ):
        mode = item.get(field)
        wanted = needed if mode == "FullDuplexStreamed" else needed[:1]
        if mode is not None and not set(wanted) <= set(events):
            text = (
                f"{where}.supportedEvents: must have {' and '.join(wanted)} with "
                f"{field} {mode}, got {', '.join(events)}"
            )
            raise Problem("UnsupportedValue", text)


def _called(
    snapshot: Snapshot, where: str, namespace: str, cluster: str, item: JsonObject
) -> Processor:
    """Return the program that an extension names."""
    ref: JsonObject | None = item.get("backendRef")
    if ref is None:
        return _model_armor(snapshot, where, cluster, item)
    if ref.get("kind") == BACKEND:
        return apigee_processor(snapshot, where, namespace, cluster, item)
    if ref.get("kind", "Service") != "Service":
        text = f"{where}.backendRef: the twin calls Services only, got {ref['kind']} {ref['name']}"
        raise Problem("UnsupportedValue", text)
    service = ("", "Service", ref["name"])
    found = processor_of(snapshot, namespace, ref["name"], int(ref["port"]), cluster)
    return replace(found, stream_seconds=timeout_of(snapshot, namespace, *service))


def _model_armor(snapshot: Snapshot, where: str, cluster: str, item: JsonObject) -> Processor:
    """Return the Model Armor stand-in for an extension (rule gateway.model-armor)."""
    name = str(item.get("googleAPIServiceName"))
    found = snapshot.google_api(name)
    if found is None:
        text = f"{where}: the twin calls Services, and Model Armor of the Gateway's own region"
        raise Problem("UnsupportedValue", f"{text}, got {name}")
    missing = sorted({*_REQUEST, *_RESPONSE} - set(strings(item, "supportedEvents")))
    if missing:
        text = f"{where}.supportedEvents: Model Armor takes all of them, missing are"
        raise Problem("UnsupportedValue", f"{text} {', '.join(missing)}")
    try:
        settings = json.loads(mapping(item, "metadata").get(_SETTINGS, ""))
    except ValueError:
        settings = None
    if not isinstance(settings, list):
        text = f"{where}.metadata.{_SETTINGS}: must be a JSON list of models and templates"
        raise Problem("UnsupportedValue", text)
    return Processor(cluster, (Endpoint(*found),), tls=False, authority=name)


def _timeout(where: str, item: JsonObject) -> float:
    least, most = all_rules()["gateway.extension.timeout"].value
    text = f"{where}.timeout: must be {least} to {most} milliseconds"
    if item.get("timeout") is None:
        raise Problem("UnsupportedValue", f"{text}, got none")
    seconds = duration_seconds(str(item["timeout"]))
    if not least <= seconds * 1000 <= most:
        raise Problem("UnsupportedValue", f"{text}, got {item['timeout']}")
    return seconds


def _metadata(where: str, item: JsonObject) -> tuple[tuple[str, str], ...]:
    metadata: dict[str, str] = mapping(item, "metadata")
    keys, size = all_rules()["gateway.extension.metadata"].value
    got = sum(len(k.encode()) + len(v.encode()) for k, v in metadata.items())
    if len(metadata) > keys or got > size:
        text = f"{where}.metadata: must be at most {keys} keys and {size} bytes"
        raise Problem("UnsupportedValue", f"{text}, got {len(metadata)} keys and {got} bytes")
    if any("{" in value and "forwarding_rule_id" in value for value in metadata.values()):
        text = f"{where}.metadata: the twin replaces no {{forwarding_rule_id}}"
        raise Problem("UnsupportedValue", text)
    return tuple(sorted(metadata.items()))


def duration_seconds(text: str) -> float:
    """Return a duration of the Gateway API, such as `1m30s`, in seconds."""
    return sum(int(n) * _UNIT_SECONDS[unit] for n, unit in _DURATION.findall(text))
