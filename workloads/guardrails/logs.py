"""Log lines as JSON objects, as Cloud Logging reads them. None has a word of a prompt or an answer.

NeMo Guardrails writes what it checks into its own logs, even of a failed action, so those are off.
"""

import json
import logging
import time
from typing import Any, TextIO

log = logging.getLogger("guardrails")
_OFF = logging.CRITICAL + 1


class JsonFormatter(logging.Formatter):
    """One object per line: time, severity, message, and the contents of `extra={"fields": …}`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. An exception is logged by type only: its message may quote a prompt."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "severity": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        return json.dumps(line)


def set_up(stream: TextIO) -> None:
    """Log this program's messages from INFO on, and none of libraries."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=_OFF, handlers=[handler], force=True)
    logging.getLogger("nemoguardrails").setLevel(_OFF)
    log.setLevel(logging.INFO)


def say(severity: int, message: str, **fields: Any) -> None:
    """Write a line with additional fields."""
    log.log(severity, message, extra={"fields": fields})
