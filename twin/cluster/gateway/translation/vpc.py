"""The VPC of a cluster and the firewall rules that decide about traffic of its pods. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, Final

_HIGHEST: Final = 65_535


@dataclass(frozen=True)
class FirewallRule:
    """A rule for TCP traffic of a VPC in one direction, without targets."""

    priority: int
    allows: bool
    ranges: tuple[IPv4Network, ...]
    """Sources of ingress, or destinations of egress."""
    ports: tuple[tuple[int, int], ...]
    """First and last port of each range."""

    def opens(self, peer: IPv4Network, port: int) -> bool | None:
        """Return whether it lets all of the other end pass; None if it decides nothing."""
        if not any(first <= port <= last for first, last in self.ports):
            return None
        if self.allows:
            return True if any(peer.subnet_of(each) for each in self.ranges) else None
        return False if any(peer.overlaps(each) for each in self.ranges) else None


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


def decision(rules: Iterable[FirewallRule], peer: IPv4Network, port: int) -> bool | None:
    """Return whether the rule with the lowest priority opens a port; None if no rule decides.

    A denial precedes its peers.

    Args:
        rules: Rules for one direction.
        peer: Addresses of the other end.
        port: Port of the receiver.
    """
    for rule in sorted(rules, key=lambda each: (each.priority, each.allows)):
        decides = rule.opens(peer, port)
        if decides is not None:
            return decides
    return None


def firewall_rules(
    priority: int,
    ranges: Iterable[str],
    allowed: Iterable[dict[str, Any]],
    denied: Iterable[dict[str, Any]],
) -> Iterator[FirewallRule]:
    """Yield what a firewall resource decides about TCP.

    Args:
        priority: Its priority, 0 to 65535.
        ranges: Its source or destination ranges; those of IPv6 are left out.
        allowed: Its `allows`, each with `protocol` and `ports`.
        denied: Its `denies`.
    """
    networks = tuple(IPv4Network(each) for each in ranges if ":" not in each)
    for is_allowed, entries in ((True, allowed), (False, denied)):
        spans = [
            span
            for entry in entries
            if str(entry.get("protocol")).lower() in ("tcp", "all", "6")
            for span in map(_span, entry.get("ports") or [f"0-{_HIGHEST}"])
        ]
        if spans:
            yield FirewallRule(priority, is_allowed, networks, tuple(spans))


def _span(ports: str) -> tuple[int, int]:
    first, _, last = str(ports).partition("-")
    return int(first), int(last or first)
