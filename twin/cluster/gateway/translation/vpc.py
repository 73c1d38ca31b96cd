"""The VPC of a cluster and the firewall rules that decide about traffic of its pods. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Network
from typing import Any, Final

ANYWHERE: Final = IPv4Network("0.0.0.0/0")
_HIGHEST: Final = 65_535
_LOWEST_PRIORITY: Final = 1000  # of a firewall that names none
_SOURCES: Final = "sourceRanges"
_DESTINATIONS: Final = "destinationRanges"
_MACHINES: Final = ("targetTags", "targetServiceAccounts", "sourceTags", "sourceServiceAccounts")


class Direction(Enum):
    """Direction of traffic; the values are the fields with the other end and with the machines."""

    INGRESS = (_SOURCES, _DESTINATIONS)
    EGRESS = (_DESTINATIONS, _SOURCES)


@dataclass(frozen=True)
class FirewallRule:
    """A rule for TCP traffic of a VPC in one direction, without tags and accounts."""

    priority: int
    allows: bool
    ranges: tuple[IPv4Network, ...]
    """Sources of ingress, or destinations of egress."""
    ports: tuple[tuple[int, int], ...]
    """First and last port of each range."""
    machines: tuple[IPv4Network, ...] = (ANYWHERE,)
    """Addresses in the network that it is for: destinations of ingress, or sources of egress."""

    def opens(self, peer: IPv4Network, port: int, own: IPv4Network) -> bool | None:
        """Return whether it lets all of both ends pass; None if it decides nothing."""
        if not any(first <= port <= last for first, last in self.ports):
            return None
        ends = ((peer, self.ranges), (own, self.machines))
        if self.allows:
            has_all = all(any(map(end.subnet_of, ranges)) for end, ranges in ends)
            return True if has_all else None
        return False if all(any(map(end.overlaps, ranges)) for end, ranges in ends) else None


@dataclass(frozen=True)
class ClusterNetwork:
    """The VPC of a cluster, for traffic of load balancers to its pods and of pods to Google."""

    name: str
    """`projects/P/global/networks/NAME`."""
    rules: tuple[FirewallRule, ...]
    """Rules for ingress."""
    proxies: tuple[str, ...]
    """Ranges of the proxy-only subnets that serve the cluster's region."""
    is_shared: bool
    """Whether it belongs to another project, in which GKE writes no firewall rules."""
    enforces_policies: bool
    """Whether the cluster enforces NetworkPolicies."""
    leaving: tuple[FirewallRule, ...] = ()
    """Rules for egress."""
    nodes: IPv4Network = ANYWHERE
    """Range of the cluster's nodes."""
    pods: IPv4Network = ANYWHERE
    """Range of the cluster's pods."""


def decision(
    rules: Iterable[FirewallRule], peer: IPv4Network, port: int, own: IPv4Network = ANYWHERE
) -> bool | None:
    """Return whether the rule with the lowest priority opens a port; None if no rule decides.

    A denial precedes its peers.

    Args:
        rules: Rules for one direction.
        peer: Addresses of the other end.
        port: Port of the receiver.
        own: Addresses of the end in the network; by default all, of which a rule for a part may
            deny traffic, and does not allow it.
    """
    for rule in sorted(rules, key=lambda each: (each.priority, each.allows)):
        decides = rule.opens(peer, port, own)
        if decides is not None:
            return decides
    return None


def firewall_rules(wall: Mapping[str, Any], direction: Direction) -> Iterator[FirewallRule]:
    """Yield what a firewall decides about TCP for all machines in its ranges.

    A disabled one decides nothing, and one with tags or service accounts not about all machines.

    Args:
        wall: The firewall, with the names of Google's provider (`allows` with `protocol`) or of the
            API (`allowed` with `IPProtocol`). Ranges of IPv6 are left out.
        direction: Direction of the traffic.
    """
    is_other = str(wall.get("direction") or Direction.INGRESS.name) != direction.name
    if is_other or wall.get("disabled") is True or any(map(wall.get, _MACHINES)):
        return
    peers, machines = (tuple(_networks(wall.get(name))) for name in direction.value)
    priority = wall.get("priority")
    for is_allowed, names in ((True, ("allows", "allowed")), (False, ("denies", "denied"))):
        spans = [
            span
            for name in names
            for entry in wall.get(name) or ()
            if str(entry.get("protocol") or entry.get("IPProtocol")).lower() in ("tcp", "all", "6")
            for span in map(_span, entry.get("ports") or [f"0-{_HIGHEST}"])
        ]
        if spans:
            yield FirewallRule(
                int(_LOWEST_PRIORITY if priority is None else priority),
                is_allowed,
                peers,
                tuple(spans),
                machines,
            )


def _networks(ranges: Iterable[str] | None) -> Iterator[IPv4Network]:
    yield from (IPv4Network(each) for each in ranges or [str(ANYWHERE)] if ":" not in each)


def _span(ports: str) -> tuple[int, int]:
    first, _, last = str(ports).partition("-")
    return int(first), int(last or first)
