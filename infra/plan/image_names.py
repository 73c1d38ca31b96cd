"""Which images a platform runs, their names in its repository, and what stands for them."""

from collections.abc import Iterator
from typing import Any

from gke_inference.catalogue.versions import builds, images
from infra.plan.capacity import has_groups, prefill_capacity
from infra.stack import Platform


def repository_names() -> dict[str, str]:
    """Return the name in a repository of each image of the lock: ours by folder, others as theirs.

    The last word stays what it was upstream, since that is how people know it.
    """
    ours = builds()
    return {
        name: ours[name].folder if name in ours else image.repository.rpartition("/")[2]
        for name, image in images().items()
    }


def repository_url(platform: Platform, region: str, repository: str) -> str:
    """Return what references to a region's repository begin with."""
    return f"{region}-docker.pkg.dev/{platform.project}/{repository}"


def engines(platform: Platform) -> set[str]:
    """Return the engine images that the models of a platform may run in."""
    found: set[str] = set()
    for model in platform.models.values():
        capacities = [model.capacity, prefill_capacity(model) or model.capacity]
        for capacity in capacities:
            for rung in platform.capacity[capacity].rungs:
                kind = "tpu" if rung.accelerator.is_tpu else "gpu"
                found.add(f"{model.engine.value}_{kind}")
    return found


def needed(platform: Platform) -> list[str]:
    """Return the images that a platform runs, by their names in the lock, sorted."""
    models = platform.models.values()
    found = {*engines(platform), "body_router", "model_catalogue"}
    if any(model.disaggregated is None and model.task.value == "generate" for model in models):
        found.add("endpoint_picker")
    if any(model.disaggregated is not None for model in models):
        found |= {"disaggregating_picker", "routing_sidecar"}
    if platform.monitoring.metrics_adapter:
        found.add("metrics_adapter")
    if any(has_groups(platform, region) for region in platform.regions):
        found.add("group_operator")
    return sorted(found)


def replacements(platform: Platform, region: str) -> dict[str, str]:
    """Return what stands for each image reference in a region: only where its digest is known."""
    if platform.images is None:
        return {}
    url = repository_url(platform, region, platform.images.repository)
    names, lock = repository_names(), images()
    return {
        lock[name].reference: f"{url}/{short}@{digest}"
        for name, short in names.items()
        if (digest := platform.images.digests.get(short)) is not None
    }


def replaced(value: Any, references: dict[str, str]) -> Any:
    """Return a value with every image reference replaced, at any depth.

    What is not known before an `up` (an output) stays as it is: no image is one.
    """
    if isinstance(value, str):
        return references.get(value, value)
    if isinstance(value, dict):
        return {key: replaced(item, references) for key, item in value.items()}  # pyright: ignore
    if isinstance(value, list):
        return [replaced(item, references) for item in value]  # pyright: ignore
    return value


def in_use(value: Any) -> Iterator[str]:
    """Yield every `image` of the containers in a value, at any depth."""
    if isinstance(value, dict):
        for key, item in value.items():  # pyright: ignore
            if key == "image" and isinstance(item, str):
                yield item
            else:
                yield from in_use(item)
    elif isinstance(value, list):
        for item in value:  # pyright: ignore
            yield from in_use(item)
