"""What runs in which version: images, GKE, APIs, and how old the facts are."""

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
    """GKE in the regions where it is the same."""

    regions: tuple[str, ...]
    mode: str
    channel: str
    least: str
    """Oldest version that has what the stack uses there."""
    because: str


@dataclass(frozen=True)
class Versions:
    """All of it."""

    images: tuple[Row, ...]
    kubernetes: tuple[Kubernetes, ...]
    apis: dict[str, dict[str, int]]
    """Objects that the stack has of each API version, over all clusters, by kind."""
    definitions: dict[str, tuple[str, ...]]
    """Versions that are served of each custom resource definition that the stack brings."""
    catalogue: str
    """Day of the facts on accelerators."""

    @property
    def unpinned(self) -> int:
        """Images without a digest."""
        return sum(not row.is_pinned for row in self.images)


def versions(plan: Plan, worlds: Iterable[World]) -> Versions:
    """Return what runs in which version.

    Args:
        plan: the stack.
        worlds: its rendered objects, by cluster.
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
        tuple(rows(plan.platform, next(iter(plan.regions)))),
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
    """Return mode, channel, the oldest version that will do, and for what."""
    settings = region.settings
    least, because = needed(region)
    exists = settings.existing.cluster is not None
    channel = "managed elsewhere" if exists else settings.release_channel.value
    return settings.mode.value, channel, least, because
