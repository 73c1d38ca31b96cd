"""Tools for commands: obtains missing tools before a command continues, with progress."""

import time
from collections.abc import Sequence
from typing import Final

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from scripts.terminal.console import console, step
from twin.toolchain import Module, missing, needed_by, provide
from twin.toolchain.network import check_settings
from twin.toolchain.python_environments import PythonEnvironment

_QUIET_SECONDS: Final = 120.0
"""After so long, output that is no terminal shows how far the tools are."""
_COLUMNS = (
    TextColumn("{task.description:<18}"),
    BarColumn(),
    TextColumn("{task.completed}/{task.total}"),
    TimeElapsedColumn(),
    TextColumn("{task.fields[doing]}"),
)


def ensure_tools(*purposes: str) -> None:
    """Obtain the missing tools of commands or parts of a stack, with progress.

    Args:
        purposes: Keys of `needs` in twin/tools/modules.yaml, such as `engine`.

    Raises:
        twin.toolchain.ToolError: a tool cannot be obtained.
    """
    obtain_modules(needed_by(*purposes))


def ensure_environment(environment: PythonEnvironment) -> None:
    """Install an environment if it is missing, with progress; this may take minutes.

    Raises:
        twin.toolchain.ToolError: it cannot be installed.
    """
    if environment.is_installed:
        return
    with step(f"Installing {environment.title}"):
        environment.install(lambda doing: console.print(f"  {environment.package}: {doing}"))


def obtain_modules(wanted: Sequence[Module]) -> None:
    """Obtain missing modules, with progress.

    Raises:
        twin.toolchain.ToolError: a tool cannot be obtained.
    """
    check_settings()
    absent = missing(wanted)
    if not absent:
        return
    names = ", ".join(f"{module.name} {module.version}" for module in absent)
    console.print(
        f"Obtaining {_tools(absent)}, once on this machine: a few minutes where they can be"
        " downloaded, 10 to 15 minutes on two cores where those of a first `make up` are built from"
        f" source ({names})",
        markup=False,
        soft_wrap=True,
    )
    with Progress(*_COLUMNS, console=console, disable=not console.is_terminal) as progress:
        tasks = {
            module.name: progress.add_task(module.name, total=None, doing="waiting")
            for module in absent
        }
        announcer = _Announcer(progress, tasks, absent)
        provide(absent, announcer.announce, _report)
    console.print(f"The tools are ready after {announcer.elapsed}", markup=False)


def _tools(modules: Sequence[Module]) -> str:
    return "1 tool" if len(modules) == 1 else f"{len(modules)} tools"


def _report(line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)


class _Announcer:
    """Shows progress: bars in a terminal, otherwise a line every two minutes."""

    def __init__(
        self, progress: Progress, tasks: dict[str, TaskID], absent: Sequence[Module]
    ) -> None:
        self._progress = progress
        self._tasks = tasks
        self._absent = absent
        self._begun = self._last = time.monotonic()

    @property
    def elapsed(self) -> str:
        """Time since the start, such as `4:07`."""
        minutes, seconds = divmod(round(time.monotonic() - self._begun), 60)
        return f"{minutes}:{seconds:02}"

    def announce(self, name: str, done: int, total: int, doing: str) -> None:
        """Show that a module has done `done` of `total` steps."""
        if name in self._tasks:
            self._progress.update(self._tasks[name], completed=done, total=total, doing=doing)
        if console.is_terminal or time.monotonic() - self._last < _QUIET_SECONDS:
            return
        self._last = time.monotonic()
        ready = f"{len(self._absent) - len(missing(self._absent))} of {_tools(self._absent)}"
        line = f"  {ready}, {self.elapsed}; {name}: {doing} {done}/{total}"
        console.print(line, markup=False, soft_wrap=True)
