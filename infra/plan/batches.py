"""The resolved batch service: region, bucket, and the models that answer."""

from dataclasses import dataclass
from typing import Final

from gke_inference.catalogue.engines import engine
from gke_inference.gateway.routes import (
    EDITS_PATH,
    EMBEDDINGS_PATH,
    PATHS_BY_TASK,
    PROMPT_PATHS,
    RESPONSES_PATH,
)
from infra.plan.names import Names, object_name
from infra.stack import Batches, Model, Platform, Task

SERVICE: Final = "batch"
"""Name of the service's objects and service account."""
WORKER: Final = "batch-worker"
"""Name of the objects of the workers."""
_ENDPOINTS: Final = {
    Task.EMBED: (EMBEDDINGS_PATH,),
    Task.GENERATE: PROMPT_PATHS,
    Task.IMAGE: (*PATHS_BY_TASK["image"], EDITS_PATH),
}


@dataclass(frozen=True)
class BatchModel:
    """A model name that batch requests may use."""

    name: str
    endpoints: tuple[str, ...]
    pool: str | None
    """Name of the pool whose picker chooses replicas, or None if there is no picker."""
    engine: str | None = None
    """Model whose own engine answers, or None for the replicas behind the gateway."""


@dataclass(frozen=True)
class BatchPlan:
    """The resolved batch service."""

    settings: Batches
    region: str
    models: tuple[BatchModel, ...]
    bucket: str
    """Name of the bucket, created or existing."""


def batches(platform: Platform) -> BatchPlan | None:
    """Return the batch settings of a platform, if it has any."""
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
                endpoints=_endpoints(model),
                pool=object_name(served) if model.task is Task.GENERATE else None,
                engine=served if served in settings.engines else None,
            )
            for served, model in answering(platform, settings).items()
            for name in (served, *model.adapter_names(served))
        ),
        bucket=settings.bucket or Names(platform).batches(region),
    )


def _endpoints(model: Model) -> tuple[str, ...]:
    """Return the endpoints of OpenAI's Batch API that all replicas of a model answer.

    The picker of prefill and decode replicas cannot read `/v1/responses`.
    """
    second = None if model.canary is None else model.canary.engine
    engines = [each for each in (model.engine, second) if each is not None]
    answers = model.disaggregated is None and all(engine(e.value).responses for e in engines)
    return tuple(path for path in _ENDPOINTS[model.task] if path != RESPONSES_PATH or answers)


def batches_in(platform: Platform, region: str) -> BatchPlan | None:
    """Return the batch service of a region, if it has one."""
    found = batches(platform)
    return found if found is not None and found.region == region else None


def region_of(platform: Platform, settings: Batches) -> str:
    """Return the region of the batch service."""
    return settings.region or next(iter(platform.regions))


def answering(platform: Platform, settings: Batches) -> dict[str, Model]:
    """Return the models that answer batch requests, in stack order."""
    region = region_of(platform, settings)
    return {
        name: model
        for name, model in platform.models_in(region).items()
        if model.task in _ENDPOINTS and (settings.models is None or name in settings.models)
    }
