"""A requirement of a stack in a project, with its state and the command that meets it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from infra.estimate.quota_check import Limit
from infra.estimate.quota_needs import Need
from infra.plan import Plan
from scripts.images.registry import RegistryError
from scripts.shared.google_cloud import Cloud, CloudError, ServiceDisabled
from scripts.terminal.where import Where


class State(StrEnum):
    """State of a requirement."""

    MET = "met"
    MISSING = "missing"
    UNSEEN = "cannot be seen"
    """Google refuses the answer, or there is none. This never counts as met."""
    LATER = "later"
    """`up` or `images bootstrap` creates the resource, so nothing can be missing yet."""
    UNLIKELY = "unlikely"
    """Advice: machines with low availability at the moment."""


@dataclass(frozen=True)
class Finding:
    """One requirement."""

    subject: str
    """Kind, such as `reservation`."""
    name: str
    """Name, with its location if it has one."""
    state: State
    says: str
    """What was seen."""
    command: str = ""
    """Command that meets it; empty if it is met or no single command exists."""
    is_required: bool = True
    """Whether the stack fails without it; false for advice, such as spot availability."""

    @property
    def is_problem(self) -> bool:
        """Return whether it prevents the deployment."""
        return self.is_required and self.state in {State.MISSING, State.UNSEEN}


class Digests(Protocol):
    """Methods of container registries."""

    def digest(self, reference: str) -> str:
        """Return the digest of an image.

        Raises:
            RegistryError: There is none, or the registry does not show it.
        """
        ...


class NoRegistries:
    """The registries of a twin, which pulls no image."""

    def digest(self, reference: str) -> str:
        """Raise an error.

        Raises:
            RegistryError: Always.
        """
        raise RegistryError(f"the twin does not ask registries for {reference}")


Limits = Callable[[Need], Limit | None]
"""Returns the limit of a quota; None if unknown."""


@dataclass(frozen=True)
class Project:
    """A stack and its target project."""

    plan: Plan
    stack: str
    """Name of the stack's file, for commands."""
    cloud: Cloud
    registry: Digests
    resolve: Callable[[str], frozenset[str]]
    """Returns the addresses of a host name, possibly none."""
    limits: Callable[[], Limits]
    """Reads the limits of quotas."""
    has_built: Callable[[str], bool] = lambda _: False
    """Returns whether the project runs an image of ours that no digest pins, by its placeholder in
    the lock. Google Cloud runs none."""
    where: Where = Where.CLOUD
    """Where the project is."""

    @property
    def id(self) -> str:
        """Return the project's identifier."""
        return self.plan.platform.project

    @property
    def number(self) -> int:
        """Return the project's number."""
        return self.plan.platform.project_number


Check = Callable[[Project], Iterator[Finding]]
"""Yields the findings of one group; a refusal of Google becomes `State.UNSEEN`."""


def judged(project: Project, subject: str, name: str, judge: Callable[[], Finding]) -> Finding:
    """Return the finding of `judge`, or that Google refuses or returns something undocumented."""
    try:
        return judge()
    except ServiceDisabled as error:
        enabled = enable(project, [error.service])
        return Finding(subject, name, State.UNSEEN, str(error), enabled)
    except CloudError as error:
        return Finding(subject, name, State.UNSEEN, str(error))
    except (KeyError, TypeError, ValueError) as error:
        says = f"the answer does not have the documented form: {error!r}"
        return Finding(subject, name, State.UNSEEN, says)


def enable(project: Project, services: Iterable[str]) -> str:
    """Return the command that enables APIs."""
    return f"gcloud services enable {' '.join(services)} --project={project.id}"
