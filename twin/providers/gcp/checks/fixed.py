"""Properties that Google fixes at creation although its provider updates them in place.

What the provider replaces is in the data (`force_new`, `force_new_if`). For the properties here it
plans an update, which Google refuses (rule cloud.fixed).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from twin.providers.gcp.checks.suppress import relative_path
from twin.providers.gcp.schema import Resource
from twin.wire.property_values import (
    CloudError,
    Json,
    as_list,
    as_object,
    get_path,
    is_unknown,
    last_segment,
)

_Changes = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Fixed:
    """A property that keeps the value of its creation."""

    source: str
    unset: str = ""
    """Value of a resource that was created without the property."""
    allowed: _Changes = frozenset()
    """Changes that Google accepts, from a value to another."""
    is_address: bool = False
    """Whether the property is in the URL of the update: Google does not find the resource."""


_PROVIDER = "hashicorp/terraform-provider-google-beta@93c65b2d60"
_NAMED = Fixed(f"{_PROVIDER}, URL of the update", is_address=True)
_REQUEST = Fixed("docs.cloud.google.com/tpu/docs/calendar-mode-reservation, limitations")
FIXED: dict[str, dict[str, Fixed]] = {
    "compute/futureReservation": {
        "specificSkuProperties.instanceProperties.machineType": _REQUEST,
        "specificSkuProperties.totalCount": _REQUEST,
        "timeWindow.endTime": _REQUEST,
        "timeWindow.startTime": _REQUEST,
    },
    "compute/resourcePolicy": {"name": _NAMED},
    "compute/subnetwork": {
        "ipv6AccessType": Fixed(f"{_PROVIDER}, website/docs/r/compute_subnetwork"),
        "purpose": Fixed(
            "hashicorp/terraform-provider-google issues 6481, 12469 and 19937",
            unset="PRIVATE",
            allowed=frozenset(
                [
                    ("INTERNAL_HTTPS_LOAD_BALANCER", "REGIONAL_MANAGED_PROXY"),
                    ("PEER_MIGRATION", "PRIVATE"),
                ]
            ),
        ),
    },
    "filestore/instance": {"name": _NAMED},
    "iam/workloadIdentityPool": {
        "mode": Fixed(
            f"{_PROVIDER}, website/docs/r/iam_workload_identity_pool", unset="FEDERATION_ONLY"
        )
    },
    "networksecurity/authzPolicy": {"location": _NAMED, "name": _NAMED},
    "networksecurity/serverTlsPolicy": {"location": _NAMED},
    "networkservices/authzExtension": {"location": _NAMED, "name": _NAMED},
    "networkservices/serviceLbPolicies": {"location": _NAMED, "name": _NAMED},
}


def check_fixed(known: Resource, old: Json, new: Json) -> None:
    """Reject a change of a property that Google fixes at creation.

    Args:
        known: the resource type.
        old: current outputs.
        new: checked inputs; values can be unknown.

    Raises:
        CloudError: the first such change.
    """
    for name, fixed in FIXED.get(known.kind, {}).items():
        wanted = get_path(new, name)
        before, after = str(get_path(old, name) or fixed.unset), str(wanted or "")
        if not before or not after or is_unknown(wanted) or before == after:
            continue
        if fixed.is_address:
            if last_segment(before) != last_segment(after):
                missing = f"{name} is fixed at creation: was '{before}', got '{after}'"
                raise CloudError(404, missing, "notFound")
        elif (before, after) not in fixed.allowed:
            raise CloudError(
                400,
                f"Invalid value for field 'resource': '{after}'. The following field(s) specified "
                f"in the request cannot be modified: [{name}]",
                "invalid",
            )


def check_used_ranges(old: Json, new: Json, clusters: Iterable[Json]) -> None:
    """Reject the change or removal of a subnet's secondary range that a cluster uses.

    Args:
        old: current outputs of the subnet.
        new: outputs after the change.
        clusters: outputs of clusters.

    Raises:
        CloudError: the first such range.
    """
    if is_unknown(new.get("secondaryIpRanges")):
        return
    after = dict(_ranges(new))
    for name, block in _ranges(old):
        if after.get(name) == block or is_unknown(after.get(name)):
            continue
        for cluster in clusters:
            if name in _used(cluster) and _is_in(cluster, old):
                raise CloudError(
                    400,
                    f"Invalid value for field 'resource.secondaryIpRanges': '{name}'. "
                    f"The range is used by cluster {cluster.get('name')}",
                    "resourceInUseByAnotherResource",
                )


def _ranges(subnetwork: Json) -> Iterator[tuple[str, Any]]:
    for item in as_list(subnetwork.get("secondaryIpRanges")) or []:
        block = as_object(item) or {}
        yield str(block.get("rangeName")), block.get("ipCidrRange")


def _used(cluster: Json) -> set[Any]:
    keys = ("clusterSecondaryRangeName", "servicesSecondaryRangeName")
    return {get_path(cluster, f"ipAllocationPolicy.{key}") for key in keys}


def _is_in(cluster: Json, subnetwork: Json) -> bool:
    """Return whether a cluster is in a subnet: by project, region and name."""
    parts = relative_path(str(cluster.get("subnetwork") or "")).split("/")
    project = parts[1] if parts[0] == "projects" and len(parts) > 1 else cluster.get("project")
    region = last_segment(str(subnetwork.get("region") or ""))
    location = str(cluster.get("location") or "")
    return (
        parts[-1] == subnetwork.get("name")
        and project == subnetwork.get("project")
        and (location == region or location.startswith(f"{region}-"))
    )
