"""Preparation of tools in the background: `python -m twin.toolchain MODULE...`."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from twin.toolchain.background import lock_name
from twin.toolchain.cache import locked
from twin.toolchain.install import provide
from twin.toolchain.registry import ToolError, named

_NICENESS = 10


def main(names: Sequence[str]) -> None:
    """Prepare modules at low priority and print the progress in lines."""
    os.nice(_NICENESS)
    modules = named(names)
    latest: dict[str, str] = {}

    def announce(name: str, done: int, total: int, doing: str) -> None:
        del done, total
        if latest.get(name) != doing:
            latest[name] = doing
            report(f"{name}: {doing}")

    def report(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    with ExitStack() as held:
        for module in modules:
            held.enter_context(locked(lock_name(module)))
        try:
            provide(modules, announce, report)
        except ToolError as error:
            report(f"error: {error}")
            sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
