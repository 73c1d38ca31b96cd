"""Rules between the settings of clusters and networks that hold for stacks and for components."""

import ipaddress
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.machine_types import boot_disks
from gke_inference.catalogue.problems import join, repeated

from .settings import ClusterMode, Maintenance, SystemPoolSettings

_MAINTENANCE_HOURS: Final = 48
"""In every 32 days, in windows of at least 4 hours
(cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions)."""
_PREFIXES: Final = {
    "nodes": (8, 29),
    "pods": (8, 24),
    "services": (8, 27),
    "proxies": (8, 26),
    "published": (8, 29),
    "accelerators": (8, 26),
}
NOT_ON_AUTOPILOT: Final = ("auto_provisioning_limits", "system_pool")
"""Settings of nodes, which GKE creates on Autopilot."""


def check_mode(where: str, mode: ClusterMode, given: Mapping[str, object]) -> Iterator[InputError]:
    """Yield the settings that an Autopilot cluster cannot have.

    Args:
        where: Path of the settings, or an empty text.
        mode: Mode of the cluster.
        given: Value of each of `NOT_ON_AUTOPILOT`, or None.
    """
    if mode == ClusterMode.AUTOPILOT:
        for field in NOT_ON_AUTOPILOT:
            if given.get(field) is not None:
                rule = "must not be set when mode is autopilot: GKE creates every node"
                yield InputError(join(where, field), rule)


def check_maintenance(where: str, window: Maintenance) -> Iterator[InputError]:
    """Yield the problems of a window. 32 days contain each weekday at least four times."""
    hours = 4 * window.hours * len(set(window.days))
    yield from repeated(join(where, "days"), window.days, "a day")
    if hours < _MAINTENANCE_HOURS:
        yield InputError(where, f"must leave GKE {_MAINTENANCE_HOURS} hours in 32 days", hours)


def check_system_pool(where: str, pool: SystemPoolSettings) -> Iterator[InputError]:
    """Yield the problems of a system pool."""
    taken, disk = boot_disks(pool.machine_type), pool.boot_disk_type
    if disk is not None and disk.value not in taken:
        rule = f"must be a boot disk type of {pool.machine_type} ({', '.join(taken)})"
        yield InputError(join(where, "boot_disk_type"), rule, disk.value)
    if pool.machine_type in pool.fallback or len(set(pool.fallback)) != len(pool.fallback):
        rule = (
            f"must list distinct machine types that differ from machine_type ({pool.machine_type})"
        )
        yield InputError(join(where, "fallback"), rule, Bare(", ".join(pool.fallback)))
    if pool.min_nodes > pool.max_nodes:
        rule = f"must be at most max_nodes ({pool.max_nodes})"
        yield InputError(join(where, "min_nodes"), rule, pool.min_nodes)


def network_of(where: str, cidr: str) -> ipaddress.IPv4Network | InputError:
    """Return a range, or the problem of a text that is none."""
    try:
        return ipaddress.IPv4Network(cidr)
    except ValueError:
        rule = "must be an IPv4 CIDR range without host bits, such as 10.0.0.0/20"
        return InputError(where, rule, cidr)


def check_range(where: str, use: str, cidr: str) -> Iterator[InputError]:
    """Yield the problem of a range that has host bits, or a size that its use does not allow.

    Args:
        where: Path of the range.
        use: Field of the ranges of a region.
        cidr: The range.
    """
    network = network_of(where, cidr)
    if isinstance(network, InputError):
        yield network
        return
    widest, narrowest = _PREFIXES[use]
    if not widest <= network.prefixlen <= narrowest:
        yield InputError(where, f"must be between /{widest} and /{narrowest}", cidr)


def check_networks(where: str, networks: Mapping[str, str]) -> Iterator[InputError]:
    """Yield the problems of networks that may reach a control plane, by name."""
    for name, cidr in networks.items():
        network = network_of(join(where, name), cidr)
        if isinstance(network, InputError):
            yield network


def check_overlaps(ranges: Sequence[tuple[str, str]]) -> Iterator[InputError]:
    """Yield the ranges that overlap others, as few as possible: first those that overlap the most.

    Of two ranges that overlap, the later one is reported.

    Args:
        ranges: Paths and values of ranges, of which invalid ones are left out.
    """
    valid = {where: network for where, cidr in ranges if (network := _network(cidr)) is not None}
    left = [pair for pair in combinations(valid, 2) if valid[pair[0]].overlaps(valid[pair[1]])]
    while left:
        counts = Counter(where for pair in left for where in pair)
        where = max(reversed(valid), key=counts.__getitem__)
        others = [other for pair in left if where in pair for other in pair if other != where]
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        rule = f"must not overlap {others[0]} ({valid[others[0]]}){more}"
        yield InputError(where, rule, str(valid[where]))
        left = [pair for pair in left if where not in pair]


def _network(cidr: str) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(cidr)
    except ValueError:
        return None
