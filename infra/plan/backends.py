"""Backends of a platform and their relay."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gke_inference.clients.settings import TokenPrice
from gke_inference.settings.fields import DEFAULT_CONTEXT
from infra.plan.cloud_run import RunService, resolve_cloud_run
from infra.plan.names import Names
from infra.plan.served import ServedModel
from infra.stack import Backend, BackendKind, BackendTarget, Fallback, Layer, Platform

RELAY: Final = "relay"
"""Name of the relay's objects and service account, the same in every cluster."""


@dataclass(frozen=True)
class BackendsPlan:
    """The backends of a stack, and the relay in front of them in each region."""

    settings: Mapping[str, Backend]
    """Backends by the name that clients request."""
    replicas: int
    """Replicas of the relay."""
    forces_usage: bool
    """Whether backends must report the tokens of every answer, which the gate counts."""
    context: int
    """Assumed context in tokens of backends."""
    prices: Mapping[str, TokenPrice]
    """Prices of backends and models, by name."""
    services: tuple[RunService, ...]
    """Cloud Run services that the stack creates for targets, in stack order."""

    def service_of(self, backend: str, at: int, region: str) -> RunService:
        """Return the service that relays of a region call for a deployed target.

        It is that of their region, or the first.

        Raises:
            IndexError: The stack does not deploy the target.
        """
        every = [each for each in self.services if (each.backend, each.at) == (backend, at)]
        return next((each for each in every if each.region == region), every[0])

    def services_in(self, region: str) -> tuple[RunService, ...]:
        """Return the services that the stack creates in a region."""
        return tuple(each for each in self.services if each.region == region)

    @property
    def targets(self) -> Iterator[BackendTarget]:
        """The targets of all backends."""
        for backend in self.settings.values():
            yield from backend.places

    @property
    def kinds(self) -> set[BackendKind]:
        """Kinds of all targets."""
        return {target.kind for target in self.targets}

    @property
    def charged_by_tokens(self) -> list[str]:
        """Names of the backends with a target that the stack does not deploy, sorted."""
        return sorted(
            name
            for name, backend in self.settings.items()
            if any(target.deploy is None for target in backend.places)
        )

    @property
    def secrets(self) -> list[str]:
        """Names of secrets that targets reference, sorted."""
        return sorted({each.secret for each in self.targets if each.secret is not None})


def resolve_backends(platform: Platform, names: Names) -> BackendsPlan | None:
    """Return the backends of a stack, if a relay runs in its clusters."""
    if not platform.backends or platform.layer is not Layer.ALL:
        return None
    clients = platform.clients
    return BackendsPlan(
        settings=platform.backends,
        replicas=platform.usual_replicas(),
        forces_usage=platform.gated_clients() is not None,
        context=DEFAULT_CONTEXT if clients is None else clients.default_context,
        prices={} if clients is None else clients.prices,
        services=resolve_cloud_run(platform, names),
    )


def has_pool_relay(served: ServedModel) -> bool:
    """Return whether a relay is a replica of a model's pool. A canary has none of its own."""
    return served.settings.has_pool_relay and served.version is None


def pool_relay(model: str) -> str:
    """Return the name of the relay that is a replica of a model's pool.

    Args:
        model: Name of the model's Kubernetes objects.
    """
    return f"{RELAY}-{model}"


def fallback_of(served: ServedModel) -> Fallback | None:
    """Return the fallback of a model in a region. A canary has none of its own."""
    return served.settings.fallback if served.version is None else None
