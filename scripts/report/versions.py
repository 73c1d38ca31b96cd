"""Versions of images, GKE and APIs, and the date of the data."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gke_inference.catalogue.accelerators import catalogue_date
from infra.plan import Plan, RegionPlan
from infra.plan.gke_version import needed
from policies.objects.world import World
from scripts.images.actions import Row, rows


@dataclass(frozen=True)
class Kubernetes:
    """Regions with the same GKE settings."""

    regions: tuple[str, ...]
    mode: str
    channel: str
    least: str
    """Minimum version for the stack's features there."""
    because: str


@dataclass(frozen=True)
class Versions:
    """All versions of a stack."""

    images: tuple[Row, ...]
    kubernetes: tuple[Kubernetes, ...]
    apis: dict[str, dict[str, int]]
    """Number of objects by API version and kind, over all clusters."""
    definitions: dict[str, tuple[str, ...]]
    """Served versions of each custom resource definition of the stack."""
    catalogue: str
    """Date of the accelerator data."""

    @property
    def unpinned(self) -> int:
        """Images without a digest."""
        return sum(not row.is_pinned for row in self.images)


def versions(plan: Plan, worlds: Iterable[World]) -> Versions:
    """Return the versions of a stack.

    Args:
        plan: Stack.
        worlds: Rendered objects, by cluster.
    """
    objects = [each for world in worlds for each in world.objects]
    kinds: dict[str, Counter[str]] = {}
    for each in objects:
        if "." in each.group:
            kinds.setdefault(str(each.body["apiVersion"]), Counter())[each.kind] += 1
    definitions = {
        each.name: tuple(
            str(version["name"]) for version in each.at("spec", "versions") if version.get("served")
        )
        for each in objects
        if each.kind == "CustomResourceDefinition"
    }
    return Versions(
        tuple(rows(plan.images, next(iter(plan.regions)))),
        _kubernetes(plan),
        {name: dict(sorted(found.items())) for name, found in sorted(kinds.items())},
        dict(sorted(definitions.items())),
        catalogue_date(),
    )


def _kubernetes(plan: Plan) -> tuple[Kubernetes, ...]:
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for name, region in plan.regions.items():
        alike.setdefault(_of_region(region), []).append(name)
    return tuple(Kubernetes(tuple(regions), *key) for key, regions in alike.items())


def _of_region(region: RegionPlan) -> tuple[str, str, str, str]:
    """Return mode, channel, and the minimum version with the feature that requires it."""
    settings = region.settings
    least, because = needed(region)
    exists = settings.existing.cluster is not None
    channel = "managed elsewhere" if exists else settings.release_channel.value
    return settings.mode.value, channel, least, because
