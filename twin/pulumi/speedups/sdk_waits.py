"""What a program waits for in the SDK although nobody needs it, taken out of its way.

Both cost little with ten resources and seconds with some hundred.
"""

import asyncio
import importlib
import re
from collections.abc import Iterable
from typing import Any

_log: Any = importlib.import_module("pulumi.log")
_stack: Any = importlib.import_module("pulumi.runtime.stack")
_BATCH_SECONDS = 0.1


def asks_for_debugging(command_line: Iterable[str]) -> bool:
    """Say whether a `pulumi` may have been told `--debug`, or `-d` among short options."""
    return any(re.fullmatch(r"--debug(=.*)?|-\w*d\w*", each) for each in command_line)


def leave_out_debugging() -> None:
    """Send the engine nothing of what it prints with `--debug` only.

    Each line is a call that the program waits for: four or five for each resource.
    """
    _log.debug = _nothing


def wait_in_batches() -> None:
    """Have a program that has registered everything wait for its outputs ten times a second.

    The SDK (pulumi 3.272, `wait_for_rpcs`) waits for the first of all outputs, then for the first
    of the others, and each time looks at every one: with 622 resources a million times.
    """
    _stack.asyncio = _Batches()


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Write nothing."""


class _Batches:
    """The module asyncio, which waits for several at a time where it is asked for the first."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def wait(self, outputs: Iterable[asyncio.Future[Any]], *, return_when: str) -> Any:
        """Wait until one has failed, all are there, or a moment has passed."""
        del return_when
        return await asyncio.wait(
            outputs, timeout=_BATCH_SECONDS, return_when=asyncio.FIRST_EXCEPTION
        )
