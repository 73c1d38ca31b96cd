"""Images that a platform runs, their names in its repository, and their replacements."""

from collections.abc import Iterator
from typing import Any

from gke_inference.catalogue.engines import engine_names
from gke_inference.catalogue.versions import (
    Image,
    builds,
    images,
    remote_repository,
    third_party_registries,
)
from infra.plan import Plan
from infra.plan.backends import has_backends
from infra.plan.clients import gated
from infra.plan.front import has_body_router
from infra.plan.guardrails import has_guards
from infra.stack import Layer, Platform


def repository_names() -> dict[str, str]:
    """Return the repository name of each image in the lock: ours by folder, others as upstream."""
    ours = builds()
    return {
        name: ours[name].folder if name in ours else image.short_name
        for name, image in images().items()
    }


def repository_url(platform: Platform, region: str) -> str:
    """Return the prefix of image references to the repository of a region.

    Raises:
        ValueError: It has none, which the rules of a stack refuse where there are images.
    """
    existing = platform.regions[region].existing.repository
    if existing is not None:
        _, project, _, location, _, name = existing.split("/")
        return f"{location}-docker.pkg.dev/{project}/{name}"
    if platform.images is None or platform.images.repository is None:
        raise ValueError(f"{region} must have a repository")
    return f"{region}-docker.pkg.dev/{platform.project}/{platform.images.repository}"


def engines(plan: Plan) -> set[str]:
    """Return the engine images that the models of a platform may run in.

    If serving stacks deploy the models, these are the engines of all its accelerators.
    """
    if plan.platform.layer is Layer.PLATFORM:
        kinds = {
            "tpu" if rung.is_tpu else "gpu"
            for capacity in plan.platform.capacity.values()
            for rung in capacity.rungs
        }
        return {f"{engine}_{kind}" for engine in engine_names() for kind in kinds} & images().keys()
    return {
        f"{model.settings.engine}_{'tpu' if rung.is_tpu else 'gpu'}"
        for every in plan.models.values()
        for model in every[0].roles
        for rung in model.capacity.settings.rungs
    }


def built(plan: Plan) -> list[str]:
    """Return the images that we build and the platform runs, by their names in the lock, sorted."""
    return sorted(name for name in needed(plan) if name in builds())


def unbuilt(plan: Plan) -> list[str]:
    """Return the images that a platform runs and no registry has, by their names in the lock.

    They exist only in a repository of the stack, and only a digest shows that it has them.
    """
    digests = {} if plan.platform.images is None else plan.platform.images.digests
    lock, names = images(), repository_names()
    return [
        name for name in decided(plan) if lock[name].is_placeholder and not digests.get(names[name])
    ]


def needed(plan: Plan) -> list[str]:
    """Return the images that a platform can run, by their names in the lock, sorted."""
    return sorted(engines(plan) | _programs(plan))


def decided(plan: Plan) -> list[str]:
    """Return the images that a platform runs for certain, by their names in the lock, sorted.

    Serving stacks determine which engines of their platform run.
    """
    return sorted(_programs(plan)) if plan.platform.layer is Layer.PLATFORM else needed(plan)


def _programs(plan: Plan) -> set[str]:
    """Return the images that a platform runs whichever engines its models use."""
    models = plan.platform.models.values()
    found = {"model_catalogue", "weights_gate"}
    if has_body_router(plan.platform):
        found.add("body_router")
    if any(model.disaggregated is None and model.task.value == "generate" for model in models):
        found.add("endpoint_picker")
    if any(model.disaggregated is not None for model in models):
        found |= {"disaggregating_picker", "routing_sidecar"}
    if gated(plan.platform) is not None and plan.platform.layer is not Layer.SERVING:
        found.add("callout")
    if has_guards(plan.platform) and plan.platform.layer is not Layer.SERVING:
        found.add("guardrails")
    if has_backends(plan.platform):
        found.add("relay")
    if plan.platform.batches is not None:
        found.add("batch")
    if plan.platform.personal_images is not None:
        found |= {"diffusion_tpu", "personal"}  # the worker creates jobs of the image server
    if plan.platform.streams:
        found.add("stream")
    if plan.platform.queues:
        found.add("queue_operator")
    if plan.platform.monitoring.metrics_adapter:
        found.add("metrics_adapter")
    found |= {
        name
        for region in plan.regions.values()
        for name, is_used in (
            ("group_operator", region.has_groups),
            ("job_set_operator", region.has_job_sets),
        )
        if is_used
    }
    if plan.platform.claimed_capacity():  # what else their pods run has its digest in the lock
        found |= {"dra_driver_gpu", "dra_driver_tpu"}
    return found


def replacements(platform: Platform, region: str) -> dict[str, str]:
    """Return the reference that pods of a region use instead of each image in the lock.

    Images without a replacement are pulled from their original registries.
    """
    return {**_pulled_through(platform, region), **from_repository(platform, region)}


def _pulled_through(platform: Platform, region: str) -> dict[str, str]:
    """Return the references to third-party images in the caches of a region."""
    found = {
        image.reference: pulled_through(platform, region, image)
        for image in images().values()
        if not image.is_placeholder
    }
    return {own: cached for own, cached in found.items() if own != cached}


def pulled_through(platform: Platform, region: str, image: Image) -> str:
    """Return the reference to a third-party image in the region's cache, or its own if uncached."""
    settings = None if platform.images is None else platform.images.pull_through
    if settings is None or image.registry not in third_party_registries():
        return image.reference
    host = f"{region}-docker.pkg.dev/{platform.project}"
    cache = remote_repository(settings.name, image.registry)
    return image.reference.replace(image.registry, f"{host}/{cache}", 1)


def from_repository(platform: Platform, region: str) -> dict[str, str]:
    """Return the references to images in the repository of a region, if their digest is known."""
    if platform.images is None:
        return {}
    url = repository_url(platform, region)
    names, lock = repository_names(), images()
    return {
        lock[name].reference: f"{url}/{short}@{digest}"
        for name, short in names.items()
        if (digest := platform.images.digests.get(short)) is not None
    }


def in_use(value: Any) -> Iterator[str]:
    """Yield the `image` of every container in a value, at any depth."""
    if isinstance(value, dict):
        for key, item in value.items():  # pyright: ignore
            if key == "image" and isinstance(item, str):
                yield item
            else:
                yield from in_use(item)
    elif isinstance(value, list):
        for item in value:  # pyright: ignore
            yield from in_use(item)
