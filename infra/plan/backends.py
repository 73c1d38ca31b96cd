"""Backends of a platform and their relay."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gke_inference.clients.settings import TokenPrice
from gke_inference.settings.fields import DEFAULT_CONTEXT
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
    def secrets(self) -> list[str]:
        """Names of secrets that targets reference, sorted."""
        return sorted({each.secret for each in self.targets if each.secret is not None})


def resolve_backends(platform: Platform) -> BackendsPlan | None:
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
    )


def fallback_of(served: ServedModel) -> Fallback | None:
    """Return the fallback of a model in a region. A canary has none of its own."""
    return served.settings.fallback if served.version is None else None
