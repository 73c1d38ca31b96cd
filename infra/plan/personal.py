"""Resolved personalized images: the region and namespace of the training jobs, and the model."""

from dataclasses import dataclass

from infra.plan.capacity import queue_region
from infra.plan.queues import team_namespace
from infra.stack import Model, PersonalImages, Platform


@dataclass(frozen=True)
class PersonalPlan:
    """The service for personalized images, and the worker behind it."""

    settings: PersonalImages
    region: str | None
    """Region of the queue of its jobs."""
    namespace: str
    """Namespace of the team, for worker and jobs."""
    model: Model
    """Settings of the model that generates images."""


def resolve_personal(platform: Platform) -> PersonalPlan | None:
    """Return the personalized images of a stack, if it has any."""
    settings = platform.personal_images
    if settings is None:
        return None
    return PersonalPlan(
        settings=settings,
        region=queue_region(platform, platform.queues[settings.queue]),
        namespace=team_namespace(settings.team),
        model=platform.models[settings.model],
    )
