"""Log lines of batches, in the format of the stream workers."""

import logging
from typing import Any

from workloads.stream.logs import set_up

_log = logging.getLogger("batch")
_log.setLevel(logging.INFO)

__all__ = ["say", "set_up"]


def say(severity: int, message: str, **fields: Any) -> None:
    """Write a line with fields, which never contain prompts or answers."""
    _log.log(severity, message, extra={"fields": fields})
