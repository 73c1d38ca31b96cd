"""Images that a platform runs, their names in its repository, and their replacements."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from gke_inference.catalogue.engines import engine, engine_names
from gke_inference.catalogue.names import service_account_email
from gke_inference.catalogue.pickers import picker_line
from gke_inference.catalogue.versions import (
    Image,
    builds,
    images,
    remote_repository,
    third_party_registries,
)
from gke_inference.personal.settings import TRAINER_IMAGE
from infra.plan.names import Names
from infra.plan.served import ServedModel
from infra.stack import Capacity, Images, Layer, Optimization, Platform
from infra.stack.layers import platform_name


def repository_names() -> dict[str, str]:
    """Return the repository name of each image in the lock: ours by folder, others as upstream."""
    ours = builds()
    return {
        name: ours[name].target if name in ours else image.short_name
        for name, image in images().items()
    }


@dataclass(frozen=True)
class RegionImages:
    """References to images in one region."""

    repository: str | None
    """Prefix of references to its repository, created or existing; None if it has none."""
    registry: str
    """Prefix of references to the caches of third-party images."""
    caches: str | None
    """Prefix of the names of these caches, or None if there are none."""
    digests: Mapping[str, str]
    """Digests of the images in the repository, by their names there."""

    @cached_property
    def from_repository(self) -> dict[str, str]:
        """References to images in the repository whose digest is known, by that in the lock."""
        if self.repository is None:
            return {}
        names, lock = repository_names(), images()
        return {
            lock[name].reference: f"{self.repository}/{short}@{digest}"
            for name, short in names.items()
            if (digest := self.digests.get(short)) is not None
        }

    @cached_property
    def replacements(self) -> dict[str, str]:
        """References that pods use instead of those in the lock.

        Images without a replacement are pulled from their original registries.
        """
        lock = [image for image in images().values() if not image.is_placeholder]
        cached = {image.reference: self.pulled_through(image) for image in lock}
        kept = {own: reference for own, reference in cached.items() if own != reference}
        return {**kept, **self.from_repository}

    def pulled_through(self, image: Image) -> str:
        """Return the reference to a third-party image in a cache, or its own if uncached."""
        if self.caches is None or image.registry not in third_party_registries():
            return image.reference
        cache = remote_repository(self.caches, image.registry)
        return image.reference.replace(image.registry, f"{self.registry}/{cache}", 1)


@dataclass(frozen=True)
class ImagesPlan:
    """The images that a stack runs, by their names in the lock."""

    settings: Images | None
    owner: str | None
    """Stack of the platform, whose repository a serving stack uses; None for other stacks."""
    project: str
    regions: Mapping[str, RegionImages]
    engines: frozenset[str]
    """Engine images that its models may run in; for a platform, those of all its accelerators."""
    programs: frozenset[str]
    """Images that it runs whichever engines its models use."""
    are_engines_decided: bool
    """Whether it runs all of `engines`: serving stacks decide which of a platform's run."""
    attestor: str
    """Name of the attestor and its note."""
    builder: str
    """Service account ID of image builds."""
    sources: str
    """Global name of the bucket with the sources of image builds."""

    @property
    def builder_email(self) -> str:
        """Address of the service account of image builds."""
        return service_account_email(self.builder, self.project)

    @property
    def needed(self) -> list[str]:
        """Images that the stack can run, sorted."""
        return sorted(self.engines | self.programs)

    @property
    def decided(self) -> list[str]:
        """Images that the stack runs for certain, sorted."""
        return self.needed if self.are_engines_decided else sorted(self.programs)

    @property
    def built(self) -> list[str]:
        """Images that we build and the stack can run, sorted."""
        return [name for name in self.needed if name in builds()]

    @property
    def unbuilt(self) -> list[str]:
        """Images that the stack runs and no registry has, sorted.

        They exist only in a repository of the stack, and only a digest shows that it has them.
        """
        digests = {} if self.settings is None else self.settings.digests
        lock, names = images(), repository_names()
        return [
            name
            for name in self.decided
            if lock[name].is_placeholder and not digests.get(names[name])
        ]


def resolve_region_images(platform: Platform) -> dict[str, RegionImages]:
    """Return the references to images in each region of a stack."""
    settings = platform.images
    through = None if settings is None else settings.pull_through
    own = None if settings is None else settings.repository
    return {
        name: RegionImages(
            repository=_repository(platform.project, name, own, region.existing.repository),
            registry=f"{name}-docker.pkg.dev/{platform.project}",
            caches=None if through is None else through.name,
            digests={} if settings is None else settings.digests,
        )
        for name, region in platform.regions.items()
    }


def _repository(project: str, region: str, own: str | None, existing: str | None) -> str | None:
    if existing is not None:
        _, project, _, location, _, name = existing.split("/")
        return f"{location}-docker.pkg.dev/{project}/{name}"
    return None if own is None else f"{region}-docker.pkg.dev/{project}/{own}"


def resolve_images(
    platform: Platform,
    names: Names,
    regions: Mapping[str, RegionImages],
    models: Mapping[str, tuple[ServedModel, ...]],
    more: Iterable[str],
) -> ImagesPlan:
    """Return the images of a stack.

    Args:
        platform: The stack.
        names: Names of its resources.
        regions: Its regions.
        models: Its models in each of their regions.
        more: Images of operators, and of the programs in front of models.
    """
    is_platform = platform.layer is Layer.PLATFORM
    return ImagesPlan(
        settings=platform.images,
        owner=platform_name(str(platform.platform)) if platform.layer is Layer.SERVING else None,
        project=platform.project,
        regions=regions,
        engines=_every_engine(platform.capacity.values()) if is_platform else _engines(models),
        programs=_programs(platform, more),
        are_engines_decided=not is_platform,
        attestor=names.attestor(),
        builder=names.image_builder(),
        sources=names.image_sources(),
    )


def _engines(models: Mapping[str, tuple[ServedModel, ...]]) -> frozenset[str]:
    used = {
        (model.settings.engine, rung.kind)
        for every in models.values()
        for model in every[0].roles
        for rung in model.capacity.settings.rungs
    }
    found = (engine(name).hardware.get(kind) for name, kind in used)
    return frozenset(each.image for each in found if each is not None)


def _every_engine(capacities: Iterable[Capacity]) -> frozenset[str]:
    kinds = {rung.kind for capacity in capacities for rung in capacity.rungs}
    able = (engine(name).hardware for name in engine_names())
    return frozenset(each[kind].image for each in able for kind in kinds if kind in each)


def _programs(platform: Platform, more: Iterable[str]) -> frozenset[str]:
    """Return the images that a stack runs whichever engines its models use."""
    models = platform.models.values()
    programs = {"model_catalogue", "weights_gate", *more}
    lines = [picker_line(name) for name in platform.gateway.picker_lines]
    if any(model.disaggregated is None and model.task.value == "generate" for model in models):
        programs |= {line.image for line in lines}
    if any(model.disaggregated is not None for model in models):
        programs |= {"routing_sidecar", *(line.roles_image for line in lines)}
    if any(model.predicts_latency for model in models):
        programs |= {"latency_predictor", "latency_trainer"}
    if platform.batches is not None:
        programs.add("batch")
    if platform.optimization is not None:
        programs |= _optimizing(platform.optimization)
    if platform.personal_images is not None:
        programs |= {TRAINER_IMAGE, "personal"}
    if platform.streams:
        programs.add("stream")
    if platform.pipelines:
        programs.add("pipelines")
    if platform.queues:
        programs.add("queue_operator")
    if platform.monitoring.metrics_adapter:
        programs.add("metrics_adapter")
    if platform.claimed_capacity():  # what else their pods run has its digest in the lock
        programs |= {"dra_driver_gpu", "dra_driver_tpu"}
    return frozenset(programs)


def _optimizing(settings: Optimization) -> set[str]:
    """Return the images of jobs that optimize models."""
    found = {"evaluation"} if settings.evaluations else set[str]()
    if settings.quantizations or settings.tunings:
        found.add("optimization")
    return found


def in_use(value: Any) -> Iterator[str]:
    """Yield the `image` of every container in a value, at any depth."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            if key == "image" and isinstance(item, str):
                yield item
            else:
                yield from in_use(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from in_use(item)
