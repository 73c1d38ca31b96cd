"""One requirement of a stack in a project: whether it is met, and the command that makes it so."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from infra.plan import Plan
from infra.quota.check import Limit
from infra.quota.needs import Need
from scripts.images.registry import RegistryError
from scripts.shared.google_cloud import Cloud, CloudError, ServiceDisabled


class State(StrEnum):
    """How a requirement stands."""

    MET = "met"
    MISSING = "missing"
    UNSEEN = "cannot be seen"
    """Google refuses the answer, or nobody offers one. It is never counted as met."""
    LATER = "later"
    """`up` makes what it is about, so nothing can be missing yet."""
    UNLIKELY = "unlikely"
    """Advice: machines that can hardly be had at this moment."""


@dataclass(frozen=True)
class Finding:
    """One requirement."""

    subject: str
    """What kind of thing it is, such as `reservation`."""
    name: str
    """Which one, with its place where it has one."""
    state: State
    says: str
    """What was seen."""
    command: str = ""
    """What makes it; empty where it is met, or where no single command does."""
    is_required: bool = True
    """Whether the stack fails without it; false for advice, such as the odds of a spot machine."""

    @property
    def is_problem(self) -> bool:
        """Return whether the stack may not be deployed because of it."""
        return self.is_required and self.state in {State.MISSING, State.UNSEEN}


class Digests(Protocol):
    """What is used of container registries."""

    def digest(self, reference: str) -> str:
        """Return the digest of an image.

        Raises:
            RegistryError: There is none, or the registry does not tell.
        """
        ...


class NoRegistries:
    """The registries of a twin, which pulls no image."""

    def digest(self, reference: str) -> str:
        """Refuse to look.

        Raises:
            RegistryError: Always.
        """
        raise RegistryError(f"the twin asks no registry for {reference}")


Limits = Callable[[Need], Limit | None]
"""Returns the limit of a quota; None where it is not known."""


@dataclass(frozen=True)
class Project:
    """A stack, and the project that it is to be deployed to."""

    plan: Plan
    stack: str
    """Name of the stack's file, for commands."""
    cloud: Cloud
    registry: Digests
    resolve: Callable[[str], frozenset[str]]
    """Returns the addresses of a host name, none where it has none."""
    limits: Callable[[], Limits]
    """Reads the limits of quotas."""

    @property
    def id(self) -> str:
        """Return the project's identifier."""
        return self.plan.platform.project

    @property
    def number(self) -> int:
        """Return the project's number."""
        return self.plan.platform.project_number


Check = Callable[[Project], Iterator[Finding]]
"""Yields the findings of one group; what Google refuses becomes `State.UNSEEN`."""


def judged(project: Project, subject: str, name: str, judge: Callable[[], Finding]) -> Finding:
    """Return what `judge` finds, or that Google refuses to show it, or shows something else."""
    try:
        return judge()
    except ServiceDisabled as error:
        service = str(error).partition(" ")[0]
        return Finding(subject, name, State.UNSEEN, str(error), enable(project, [service]))
    except CloudError as error:
        return Finding(subject, name, State.UNSEEN, str(error))
    except (KeyError, TypeError, ValueError) as error:
        says = f"the answer has another form than documented: {error!r}"
        return Finding(subject, name, State.UNSEEN, says)


def enable(project: Project, services: Iterable[str]) -> str:
    """Return the command that enables APIs."""
    return f"gcloud services enable {' '.join(services)} --project={project.id}"
