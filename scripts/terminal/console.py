"""Console output and errors of the commands."""

import os
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console

from scripts.terminal.exit_codes import ExitCode

_PIPED_WIDTH = 160
console = Console(highlight=False)
if not console.is_terminal and not os.environ.get("COLUMNS"):
    console = Console(highlight=False, width=_PIPED_WIDTH)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def one_line(text: str) -> str:
    """Return the output of another program as one line, for an error message."""
    return " ".join(text.split())


class CommandError(Exception):
    """The command cannot continue; the message is the line for the user."""

    code = ExitCode.ERROR
    """Exit code of the program."""


class CheckFailedError(CommandError):
    """A check failed; nothing was changed."""

    code = ExitCode.CHECK_FAILED


@contextmanager
def step(title: str) -> Generator[None]:
    """Show a title while the block runs, and its duration afterwards."""
    import time  # noqa: PLC0415 - keeps the module's names those of its purpose

    begun = time.monotonic()
    if console.is_terminal:
        with console.status(title):
            yield
    else:
        yield
    console.print(f"{title} [dim]({time.monotonic() - begun:.1f} s)[/dim]")
