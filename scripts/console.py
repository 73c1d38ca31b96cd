"""How the program speaks: one console, and one form for errors."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum

from rich.console import Console

_PIPED_WIDTH = 160
console = Console(highlight=False)
if not console.is_terminal and not os.environ.get("COLUMNS"):
    console = Console(highlight=False, width=_PIPED_WIDTH)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


class Exit(IntEnum):
    """What the program ends with."""

    DONE = 0
    NO = 1
    ERROR = 2
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """What it says, for people."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.DONE: "all is well",
    Exit.NO: "the question was answered, and the answer is no: something is short, broken, missing "
    "or slower than it may be",
    Exit.ERROR: "the question could not be answered, or not all was done: one message on standard "
    "error, which begins with `error:`; where an option is wrong it names option, rule and value",
    Exit.INTERRUPTED: "interrupted; the same command again goes on",
}


class CommandError(Exception):
    """A subcommand cannot go on; the message is all the user has to read."""


@contextmanager
def step(title: str) -> Generator[None]:
    """Show what is going on, and how long it took when it is done."""
    import time  # noqa: PLC0415 - keeps the module's names those of its purpose

    begun = time.monotonic()
    if console.is_terminal:
        with console.status(title):
            yield
    else:
        yield
    console.print(f"{title} [dim]({time.monotonic() - begun:.1f} s)[/dim]")
