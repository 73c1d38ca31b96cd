"""Tools for commands: obtains missing tools before a command continues, with progress."""

from collections.abc import Sequence

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from scripts.terminal.console import console, step
from twin.toolchain import Module, missing, needed_by, provide
from twin.toolchain.network import check_settings
from twin.toolchain.python_environments import PythonEnvironment

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
    console.print(f"Obtaining {names}.", markup=False)
    with Progress(*_COLUMNS, console=console, disable=not console.is_terminal) as progress:
        tasks = {
            module.name: progress.add_task(module.name, total=None, doing="waiting")
            for module in absent
        }
        provide(absent, _Announcer(progress, tasks).announce, _report)


def _report(line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)


class _Announcer:
    """Shows progress: bars in a terminal, otherwise a line for each step and tenth."""

    def __init__(self, progress: Progress, tasks: dict[str, TaskID]) -> None:
        self._progress = progress
        self._tasks = tasks
        self._latest: dict[str, tuple[str, int]] = {}

    def announce(self, name: str, done: int, total: int, doing: str) -> None:
        """Show that a module has done `done` of `total` steps."""
        if name in self._tasks:
            self._progress.update(self._tasks[name], completed=done, total=total, doing=doing)
        news = (doing, 10 * done // max(total, 1))
        if self._latest.get(name) != news and not console.is_terminal:
            console.print(f"  {name}: {doing} {done}/{total}", markup=False)
        self._latest[name] = news
