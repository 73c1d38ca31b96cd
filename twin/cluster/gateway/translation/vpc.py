"""The VPC of a cluster and the firewall rules that decide about ingress to its pods. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, Final

_HIGHEST: Final = 65_535


@dataclass(frozen=True)
class FirewallRule:
    """A rule for TCP ingress of a VPC, without targets."""

    priority: int
    allows: bool
    sources: tuple[IPv4Network, ...]
    ports: tuple[tuple[int, int], ...]
    """First and last port of each range."""

    def opens(self, source: IPv4Network, port: int) -> bool | None:
        """Return whether it lets all of a source in; None if it decides nothing about it."""
        if not any(first <= port <= last for first, last in self.ports):
            return None
        if self.allows:
            return True if any(source.subnet_of(each) for each in self.sources) else None
        return False if any(source.overlaps(each) for each in self.sources) else None


@dataclass(frozen=True)
class ClusterNetwork:
    """The VPC of a cluster, for traffic of load balancers to its pods."""

    name: str
    """`projects/P/global/networks/NAME`."""
    rules: tuple[FirewallRule, ...]
    proxies: tuple[str, ...]
    """Ranges of the proxy-only subnets that serve the cluster's region."""
    is_shared: bool
    """Whether it belongs to another project, in which GKE writes no firewall rules."""
    enforces_policies: bool
    """Whether the cluster enforces NetworkPolicies."""


def firewall_rules(
    priority: int,
    sources: Iterable[str],
    allowed: Iterable[dict[str, Any]],
    denied: Iterable[dict[str, Any]],
) -> Iterator[FirewallRule]:
    """Yield what a firewall resource decides about TCP.

    Args:
        priority: Its priority, 0 to 65535.
        sources: Its source ranges; those of IPv6 are left out.
        allowed: Its `allows`, each with `protocol` and `ports`.
        denied: Its `denies`.
    """
    ranges = tuple(IPv4Network(each) for each in sources if ":" not in each)
    for is_allowed, entries in ((True, allowed), (False, denied)):
        spans = [
            span
            for entry in entries
            if str(entry.get("protocol")).lower() in ("tcp", "all", "6")
            for span in map(_span, entry.get("ports") or [f"0-{_HIGHEST}"])
        ]
        if spans:
            yield FirewallRule(priority, is_allowed, ranges, tuple(spans))


def _span(ports: str) -> tuple[int, int]:
    first, _, last = str(ports).partition("-")
    return int(first), int(last or first)
