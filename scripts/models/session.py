"""Opens the object storage of a stack, Google's or the twin's."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial

from infra.plan import Plan, resolve
from infra.stack import Platform
from scripts.models.places import Target, targets
from scripts.models.progress import TransferBars
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import check_one, stack_of
from scripts.terminal.where import Where, say_where
from workloads.transfer.errors import NoBucket, NoCredentials, TransferError
from workloads.transfer.store import Store
from workloads.transfer.work import Crew

EMULATOR = "STORAGE_EMULATOR_HOST"


@dataclass
class Storage:
    """Object storage, and worker threads."""

    open_store: Callable[[], Store]
    crew: Crew
    progress: TransferBars

    @cached_property
    def store(self) -> Store:
        """The storage, opened on first use: a wrong option is reported before missing credentials.

        Raises:
            CommandError: The twin is not up.
            TransferError: It cannot be opened.
        """
        return self.open_store()


@dataclass
class Session(Storage):
    """The storage of a stack."""

    platform: Platform
    plan: Plan

    @property
    def targets(self) -> dict[str, Target]:
        """The weights of every model, by name."""
        return targets(self.plan)

    def target(self, model: str) -> Target:
        """Return the weights of one model.

        Raises:
            CommandError: The stack has no such model.
        """
        return self.targets[check_one("--model", model, self.targets)]


@contextmanager
def open_session(stack: str, where: Where, *, workers: int) -> Generator[Session]:
    """Open the storage of a stack, and turn transfer errors into command errors.

    Args:
        stack: Name of the stack.
        where: Whose storage to use.
        workers: Number of threads.

    Raises:
        CommandError: As what runs inside.
    """
    platform = stack_of(stack)
    say_where(where, platform.project)
    with plain_errors(), TransferBars(console) as progress:
        opened = partial(open_store, platform.project, on_twin=where.is_twin, workers=workers)
        yield Session(opened, Crew(workers), progress, platform, resolve(platform))


def open_store(project: str | None, *, on_twin: bool, workers: int) -> Store:
    """Return the storage of a project, Google's or the twin's.

    Args:
        project: Project that calls are counted for; None: the bucket's.
        on_twin: Whether to use the twin's storage.
        workers: Number of threads.

    Raises:
        CommandError: The twin is not up.
        NoCredentials: There are no credentials.
    """
    return Store(project, endpoint=_endpoint(on_twin=on_twin), workers=workers)


@contextmanager
def plain_errors() -> Generator[None]:
    """Turn transfer errors into command errors.

    Raises:
        CommandError: A transfer failed.
    """
    try:
        yield
    except NoBucket as error:
        hint = "deploy the stack first; its model servers wait for their weights"
        raise CommandError(f"{error}: {hint}") from None
    except NoCredentials as error:
        raise CommandError(f"{error}, or use --on twin for the twin's storage") from None
    except TransferError as error:
        raise CommandError(str(error)) from None


def _endpoint(*, on_twin: bool) -> str | None:
    """Return the substitute server for Cloud Storage, or None for Google's."""
    if on_twin:
        # the twin's modules take a while to load, and a real project does not need them
        from scripts.shared.tool_setup import obtain_modules  # noqa: PLC0415
        from twin.host.paths import TwinPaths  # noqa: PLC0415
        from twin.providers.gcp.effects import gcs  # noqa: PLC0415
        from twin.toolchain import named as modules_named  # noqa: PLC0415

        paths = TwinPaths.default()
        if not paths.root.exists():
            rule = "must be cloud while the twin is down"
            raise CommandError(f"--on: {rule}, got 'twin'; start it with make up")
        obtain_modules(modules_named([gcs.NAME]))
        return gcs.url(paths)
    named = os.environ.get(EMULATOR)
    if not named:
        return None
    address = named if "://" in named else f"http://{named}"
    console.print(f"{EMULATOR}: using {address}, not Google Cloud", markup=False)
    return address
