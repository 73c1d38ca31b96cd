"""The project of a stack, and what its resources there have in common."""

from dataclasses import dataclass

from infra.stack import Platform


@dataclass(frozen=True)
class ProjectPlan:
    """The project that a stack deploys to."""

    id: str
    number: str
    """Number of the project, as identities of pods contain it."""
    environment: str
    is_protected: bool
    """Whether the replacement and deletion of stateful resources is refused."""
    allow_replace: tuple[str, ...]
    """Names of stateful resources that may be replaced or deleted nevertheless."""
    services: tuple[str, ...]
    """APIs that the stack calls, each once."""

    @property
    def labels(self) -> dict[str, str]:
        """Labels of every resource of the stack, by which a budget selects them."""
        return {"env": self.environment}


def resolve_project(platform: Platform, services: tuple[str, ...]) -> ProjectPlan:
    """Return the project of a stack."""
    return ProjectPlan(
        id=platform.project,
        number=str(platform.project_number),
        environment=platform.environment,
        is_protected=platform.protection,
        allow_replace=platform.allow_replace,
        services=services,
    )
