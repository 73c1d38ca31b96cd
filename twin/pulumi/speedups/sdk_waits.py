"""Removal of unneeded waits in the SDK.

Both waits are short with ten resources but take seconds with several hundred.
"""

import asyncio
import importlib
import re
from collections.abc import Iterable
from typing import Any

_log: Any = importlib.import_module("pulumi.log")
_stack: Any = importlib.import_module("pulumi.runtime.stack")
_BATCH_SECONDS = 0.5


def asks_for_debugging(command_line: Iterable[str]) -> bool:
    """Return whether `pulumi` might have been called with `--debug` or a short `-d`."""
    return any(re.fullmatch(r"--debug(=.*)?|-\w*d\w*", each) for each in command_line)


def leave_out_debugging() -> None:
    """Do not send the engine messages that it prints only with `--debug`.

    Each line is a blocking call: four or five per resource.
    """
    _log.debug = _nothing


def wait_in_batches() -> None:
    """Wait for the outputs of a program that has registered everything twice a second.

    The SDK (pulumi 3.272, `wait_for_rpcs`) waits for the first of all outputs, then for the first
    of the rest, and checks every output each time: with 622 resources, a million checks.
    """
    _stack.asyncio = _Batches()


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Write nothing."""


class _Batches:
    """The module asyncio, with a wait for several outputs instead of only the first."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def wait(self, outputs: Iterable[asyncio.Future[Any]], *, return_when: str) -> Any:
        """Wait until one has failed, all are complete, or a short time has passed."""
        del return_when
        return await asyncio.wait(
            outputs, timeout=_BATCH_SECONDS, return_when=asyncio.FIRST_EXCEPTION
        )
