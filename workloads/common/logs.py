"""Log lines as JSON objects, as Cloud Logging reads them, without prompts, answers or users."""

import json
import logging
import time
from typing import Any, Final, TextIO

SILENT: Final = logging.CRITICAL + 1
"""Severity that no line has."""
_log = logging.getLogger("workloads")


class JsonFormatter(logging.Formatter):
    """One object per line: time, severity, message, and the contents of `extra={"fields": …}`."""

    def __init__(self, *, with_tracebacks: bool = False) -> None:
        """Create the formatter. Without tracebacks, exceptions are left out: they may quote."""
        super().__init__()
        self._with_tracebacks = with_tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        message = record.getMessage()
        if self._with_tracebacks and record.exc_info:
            message = f"{message}\n{self.formatException(record.exc_info)}"
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "severity": record.levelname,
            "message": message,
            **getattr(record, "fields", {}),
        }
        return json.dumps(line)


def set_up(
    stream: TextIO, libraries: int = logging.WARNING, *, with_tracebacks: bool = False
) -> None:
    """Write the program's lines from INFO on.

    Args:
        stream: Where lines go.
        libraries: Lowest severity of libraries' lines, which may quote what must not be logged.
        with_tracebacks: Whether lines of exceptions have their traceback.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(with_tracebacks=with_tracebacks))
    logging.basicConfig(level=libraries, handlers=[handler], force=True)
    _log.setLevel(logging.INFO)


def say(severity: int, message: str, **fields: Any) -> None:
    """Write a line with additional fields."""
    _log.log(severity, message, extra={"fields": fields})


def say_failed(message: str) -> None:
    """Write an error with the exception that is being handled."""
    _log.exception(message)
