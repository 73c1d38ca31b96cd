"""The resolved batch service: region, bucket, and the models that answer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gke_inference.catalogue.engines import engine
from gke_inference.clients.settings import ANONYMOUS
from gke_inference.gateway.routes import (
    EDITS_PATH,
    EMBEDDINGS_PATH,
    PATHS_BY_TASK,
    PROMPT_PATHS,
    RESPONSES_PATH,
)
from infra.plan.names import object_name, resolve_names
from infra.stack import Batches, Clients, Model, Platform, Task

SERVICE: Final = "batch"
"""Name of the service's objects and service account."""
WORKER: Final = "batch-worker"
"""Name of the objects of the workers."""
ENDPOINTS: Final = {
    Task.EMBED: (EMBEDDINGS_PATH,),
    Task.GENERATE: PROMPT_PATHS,
    Task.IMAGE: (*PATHS_BY_TASK["image"], EDITS_PATH),
}
"""Endpoints of OpenAI's Batch API by task of the model; other tasks have no batches."""


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
    teams: Mapping[str, tuple[str, ...]] | None
    """Models that each team may use, none for all; None without client teams."""

    @property
    def may_be_idle(self) -> bool:
        """Whether it may scale to zero workers."""
        return self.settings.workers.min == 0


def resolve_batches(platform: Platform) -> BatchPlan | None:
    """Return the batch service of a stack, if it has one."""
    settings = platform.batches
    if settings is None:
        return None
    region = region_of(settings, platform.regions)
    clients = platform.gated_clients()
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
            for served, model in answering(settings, platform.models_in(region)).items()
            for name in (served, *model.adapter_names(served))
        ),
        bucket=settings.bucket or resolve_names(platform).batches(region),
        teams=None if clients is None else _teams(clients),
    )


def _endpoints(model: Model) -> tuple[str, ...]:
    """Return the endpoints of OpenAI's Batch API that all replicas of a model answer.

    The picker of prefill and decode replicas cannot read `/v1/responses`.
    """
    second = None if model.canary is None else model.canary.engine
    engines = [each for each in (model.engine, second) if each is not None]
    answers = model.disaggregated is None and all(engine(e).responses for e in engines)
    return tuple(path for path in ENDPOINTS[model.task] if path != RESPONSES_PATH or answers)


def _teams(clients: Clients) -> dict[str, tuple[str, ...]]:
    by_team = {name: team.models or () for name, team in clients.teams.items()}
    if clients.anonymous is None:
        return by_team
    return {**by_team, ANONYMOUS: by_team.get(ANONYMOUS, ())}


def region_of(settings: Batches, regions: Iterable[str]) -> str:
    """Return the region of a batch service: the one that is set, or the first of the stack."""
    return settings.region or next(iter(regions))


def answering(settings: Batches, models: Mapping[str, Model]) -> dict[str, Model]:
    """Return the models of the service's region that answer batch requests, in stack order."""
    return {
        name: model
        for name, model in models.items()
        if model.task in ENDPOINTS and (settings.models is None or name in settings.models)
    }
