"""Log lines as JSON objects, as Cloud Logging reads them."""

import json
import logging
import re
import secrets
import time
from typing import Any, TextIO

_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
log = logging.getLogger("diffusion")


class JsonFormatter(logging.Formatter):
    """One object per line: time, severity, message, and the contents of `extra={"fields": …}`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        message = record.getMessage()
        if record.exc_info:
            message = f"{message}\n{self.formatException(record.exc_info)}"
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "severity": record.levelname,
            "message": message,
            **getattr(record, "fields", {}),
        }
        return json.dumps(line)


def set_up(stream: TextIO) -> None:
    """Write everything from INFO on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def say(severity: int, message: str, **fields: Any) -> None:
    """Write a line with additional fields."""
    log.log(severity, message, extra={"fields": fields})


def trace_of(traceparent: str | None) -> str:
    """Return the trace of a W3C `traceparent`, or a new one."""
    match = _PARENT.fullmatch((traceparent or "").strip().lower())
    return match.group(1) if match else secrets.token_hex(16)
