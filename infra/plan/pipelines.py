"""Resolved pipelines: region and names."""

from dataclasses import dataclass

from infra.plan.names import resolve_names
from infra.stack import Pipeline, Platform


@dataclass(frozen=True)
class PipelinePlan:
    """One pipeline, resolved."""

    name: str
    settings: Pipeline
    region: str
    physical: str
    """Name of its job, subscription and topic of events, and prefix of related names."""
    account: str
    """Service account ID of its workers."""
    bucket: str
    """Global name of its bucket."""


def resolve_pipelines(platform: Platform) -> tuple[PipelinePlan, ...]:
    """Return the pipelines of a stack, in its order."""
    names = resolve_names(platform)

    def resolved(name: str, pipeline: Pipeline) -> PipelinePlan:
        model = platform.models[pipeline.model]
        return PipelinePlan(
            name=name,
            settings=pipeline,
            region=pipeline.region or min(platform.regions_of(model)),
            physical=names.pipeline(name),
            account=names.pipeline_account(name),
            bucket=names.pipeline_bucket(name),
        )

    return tuple(resolved(name, pipeline) for name, pipeline in platform.pipelines.items())
