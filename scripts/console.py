"""Output of the commands: one console, one form for errors, progress while tools are built."""

import os
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.exit_codes import ExitCode
from twin.toolchain import missing
from twin.toolchain_build import build_missing

_PIPED_WIDTH = 160
console = Console(highlight=False)
if not console.is_terminal and not os.environ.get("COLUMNS"):
    console = Console(highlight=False, width=_PIPED_WIDTH)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def one_line(text: str) -> str:
    """Return a text of another program in one line, for an error message."""
    return " ".join(text.split())


class CommandError(Exception):
    """The command cannot continue; the message is the line that the user reads."""

    code = ExitCode.ERROR
    """What the program exits with."""


class CheckFailedError(CommandError):
    """A check failed; nothing was changed."""

    code = ExitCode.CHECK_FAILED


@contextmanager
def step(title: str) -> Generator[None]:
    """Show a title while the block runs, and how long it took afterwards."""
    import time  # noqa: PLC0415 - keeps the module's names those of its purpose

    begun = time.monotonic()
    if console.is_terminal:
        with console.status(title):
            yield
    else:
        yield
    console.print(f"{title} [dim]({time.monotonic() - begun:.1f} s)[/dim]")


def ensure_tools() -> None:
    """Build the tools that this machine lacks, with progress.

    Raises:
        twin.toolchain.ToolError: a tool cannot be had.
    """
    modules = missing()
    if not modules:
        return
    names = ", ".join(f"{module.name} {module.version}" for module in modules)
    console.print(
        f"Building {names} from source: once on this machine, 10 to 20 minutes on 2 cores."
    )
    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} packages"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[doing]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks = {
            module.name: progress.add_task(module.name, total=None, doing="waiting")
            for module in modules
        }
        said: dict[str, str] = {}
        tenths: dict[str, int] = {}

        def announce(name: str, done: int, total: int, doing: str) -> None:
            if name in tasks:
                progress.update(tasks[name], completed=done, total=total, doing=doing)
            tenth = 10 * done // max(total, 1)
            news = said.get(name) != doing or tenths.get(name) != tenth
            if news and not console.is_terminal:
                console.print(f"  {name}: {doing} {done}/{total}")
            said[name], tenths[name] = doing, tenth

        build_missing(announce)
