"""Costs can be attributed to an environment and a part of the platform."""

from collections.abc import Iterator
from typing import Any

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import BUCKET, CLUSTER, at, is_type, section
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_DISK = "gcp:compute/disk:Disk"
_KEYS = ("env", "managed-by")


def _field(resource: Resource) -> str:
    return "resourceLabels" if resource.type == CLUSTER else "labels"


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for key in _KEYS:
        if not at(resource.props, _field(resource), key):
            yield broken(resource, f"{_field(resource)}.{key}", quoted(None), "must be set")


def _remedy(resource: Resource, _: Config) -> dict[str, Any]:
    """Return the labels with the missing ones added: the stack, and that Pulumi manages it."""
    labels = section(resource.props, _field(resource))
    missing = {"env": resource.stack, "managed-by": "pulumi"}
    added = {key: value for key, value in missing.items() if not labels.get(key)}
    return {_field(resource): {**labels, **added}} if added else {}


RULE = ResourceRule(
    name="cost-labels",
    description="Billed resources have environment and owner labels; the pack adds missing ones.",
    applies=is_type(BUCKET, CLUSTER, _DISK),
    check=_check,
    level="remediating",
    reference="Google: best practices for labels; GKE: cost allocations",
    remedy=_remedy,
)
