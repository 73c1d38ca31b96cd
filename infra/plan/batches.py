"""What batches become: their region, their bucket, and the models that answer."""

from dataclasses import dataclass
from typing import Final

from infra.plan.names import Names, object_name
from infra.stack import Batches, Model, Platform, Task

SERVICE: Final = "batch"
"""Name of the objects of the service and of its account."""
WORKER: Final = "batch-worker"
"""Name of the objects of the workers."""
_ENDPOINTS: Final = {
    Task.EMBED: ("/v1/embeddings",),
    Task.GENERATE: ("/v1/chat/completions", "/v1/completions"),
}
"""What models answer; `/v1/responses` reaches none, as pickers cannot read it."""


@dataclass(frozen=True)
class BatchModel:
    """A name that requests of batches may have in `model`."""

    name: str
    endpoints: tuple[str, ...]
    pool: str | None
    """Name of the pool whose picker chooses its replicas; None where there is no picker."""


@dataclass(frozen=True)
class BatchPlan:
    """Batches, resolved."""

    settings: Batches
    region: str
    models: tuple[BatchModel, ...]
    bucket: str
    """Name of the bucket, made or existing."""


def batches(platform: Platform) -> BatchPlan | None:
    """Return the batches of a platform, where it has some."""
    settings = platform.batches
    if settings is None:
        return None
    region = region_of(platform, settings)
    return BatchPlan(
        settings=settings,
        region=region,
        models=tuple(
            BatchModel(
                name=name,
                endpoints=_ENDPOINTS[model.task],
                pool=object_name(served) if model.task is Task.GENERATE else None,
            )
            for served, model in answering(platform, settings).items()
            for name in (served, *model.adapter_names(served))
        ),
        bucket=settings.bucket or Names(platform).batches(region),
    )


def batches_in(platform: Platform, region: str) -> BatchPlan | None:
    """Return the batches of a region, where it has some."""
    found = batches(platform)
    return found if found is not None and found.region == region else None


def region_of(platform: Platform, settings: Batches) -> str:
    """Return the region of batches."""
    return settings.region or next(iter(platform.regions))


def answering(platform: Platform, settings: Batches) -> dict[str, Model]:
    """Return the models that answer requests of batches, in the order of the stack."""
    region = region_of(platform, settings)
    return {
        name: model
        for name, model in platform.models_in(region).items()
        if model.task in _ENDPOINTS and (settings.models is None or name in settings.models)
    }
