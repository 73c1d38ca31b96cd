"""Replacements that depend on both values (`force_new_if` of the data)."""

import ipaddress
from collections.abc import Callable, Iterator
from typing import Any

from twin.providers.gcp.schema import Resource
from twin.wire.property_values import Json, as_list, get_path, is_unknown


def extra_replacements(known: Resource, old: Json, new: Json) -> list[str]:
    """Return the paths whose change replaces the resource, beyond what the schema states."""
    check = _CHECKS.get(known.kind)
    return [] if check is None else list(check(old, new))


def made_anew(known: Resource, old: Json, new: Json) -> list[str]:
    """Return the outputs for whose sake an otherwise unchanged resource is replaced."""
    if known.kind != "compute/forwardingRule" or new.get("recreateClosedPsc") is not True:
        return []
    is_closed = old.get("pscConnectionStatus") == "CLOSED"
    attached = "/serviceAttachments/" in str(new.get("target", ""))
    return ["pscConnectionStatus"] if is_closed and attached else []


def _goes_off(old: Json, new: Json, path: str) -> bool:
    return get_path(old, path) is True and get_path(new, path) in (False, None)


def _cluster(old: Json, new: Json) -> Iterator[str]:
    for path in ("enableL4IlbSubsetting", "enableFqdnNetworkPolicy"):
        if old.get(path) is True and new.get(path) is False:
            yield path
    if _goes_off(old, new, "enableAutopilot"):
        yield "enableAutopilot"
    path = "enableK8sBetaApis.enabledApis"
    before, after = as_list(get_path(old, path)) or [], as_list(get_path(new, path)) or []
    if any(item not in after for item in before):
        yield "enableK8sBetaApis"
    if old.get("enableAutopilot") is True:
        yield "dnsConfig.additiveVpcScopeDnsDomain"


def _disk(old: Json, new: Json) -> Iterator[str]:
    before, after = old.get("size"), new.get("size")
    if isinstance(before, int) and isinstance(after, int) and after < before:
        yield "size"
    if "hyperdisk" not in str(new.get("type", "")):
        yield "provisionedIops"


def _subnetwork(old: Json, new: Json) -> Iterator[str]:
    before, after = old.get("ipCidrRange"), new.get("ipCidrRange")
    if is_unknown(after) or not _contains(after, before):
        yield "ipCidrRange"


def _contains(outer: Any, inner: Any) -> bool:
    try:
        wide: Any = ipaddress.ip_network(outer, strict=False)
        return bool(wide.supernet_of(ipaddress.ip_network(inner, strict=False)))
    except (ValueError, TypeError):
        return False


def _forwarding_rule(old: Json, new: Json) -> Iterator[str]:
    attachments = [str(side.get("target", "")) for side in (old, new)]
    if all("/serviceAttachments/" in item for item in attachments):
        yield "target"
    if new.get("loadBalancingScheme") == "INTERNAL_MANAGED":
        yield "allowGlobalAccess"


def _secret(old: Json, new: Json) -> Iterator[str]:
    if get_path(old, "replication.auto") is None or get_path(new, "replication.auto") is None:
        yield "replication.auto"


def _bucket(old: Json, new: Json) -> Iterator[str]:
    if _goes_off(old, new, "retentionPolicy.isLocked"):
        yield "retentionPolicy"


_CHECKS: dict[str, Callable[[Json, Json], Iterator[str]]] = {
    "container/cluster": _cluster,
    "compute/disk": _disk,
    "compute/subnetwork": _subnetwork,
    "compute/forwardingRule": _forwarding_rule,
    "secretmanager/secret": _secret,
    "storage/bucket": _bucket,
}
