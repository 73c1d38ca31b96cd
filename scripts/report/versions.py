"""What runs in which version: images, GKE, APIs, and how old the facts are."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gke_inference.accelerators import accelerator, catalogue_date
from gke_inference.versions import gke_minimum
from infra.capacity import checked_rungs
from infra.stack import Platform
from policies.invariants.world import World
from scripts.images_actions import Row, rows

_POOLS = "inference-pool-crd"


@dataclass(frozen=True)
class Kubernetes:
    """GKE in one region."""

    region: str
    mode: str
    channel: str
    least: str
    """Oldest version that has what the stack uses there."""
    because: str


@dataclass(frozen=True)
class Api:
    """An API group at a version, and what of it the stack uses."""

    version: str
    kinds: tuple[tuple[str, int], ...]
    """Kind and number of objects, over all clusters."""


@dataclass(frozen=True)
class Definition:
    """A custom resource definition that the stack brings."""

    name: str
    versions: tuple[str, ...]


@dataclass(frozen=True)
class Versions:
    """All of it."""

    images: tuple[Row, ...]
    kubernetes: tuple[Kubernetes, ...]
    apis: tuple[Api, ...]
    definitions: tuple[Definition, ...]
    catalogue: str
    """Day of the facts on accelerators."""

    @property
    def unpinned(self) -> int:
        """Images without a digest."""
        return sum(not row.is_pinned for row in self.images)


def versions(platform: Platform, worlds: Iterable[World]) -> Versions:
    """Return what runs in which version.

    Args:
        platform: the stack.
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
        tuple(rows(platform, next(iter(platform.regions)))),
        tuple(_kubernetes(platform, region) for region in platform.regions),
        tuple(Api(name, tuple(sorted(found.items()))) for name, found in sorted(kinds.items())),
        tuple(Definition(name, served) for name, served in sorted(definitions.items())),
        catalogue_date(),
    )


def _kubernetes(platform: Platform, region: str) -> Kubernetes:
    settings = platform.regions[region]
    needed = {gke_minimum(_POOLS): "InferencePool"}
    for capacity in platform.capacity:
        for rung in checked_rungs(platform, capacity, region).values():
            if least := accelerator(rung.accelerator).gke_minimum.get(settings.mode.value):
                needed[least] = rung.accelerator
    least = max(needed, key=version_key)
    return Kubernetes(
        region, settings.mode.value, settings.release_channel.value, least, needed[least]
    )


def version_key(version: str) -> tuple[int, ...]:
    """Return a version of GKE as numbers that can be compared."""
    return tuple(int(part) for part in re.findall(r"\d+", version))
