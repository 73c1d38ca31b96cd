"""Log lines as JSON objects, as Cloud Logging reads them; none has a prompt or an answer."""

import json
import logging
import time
from typing import Any, TextIO

_log = logging.getLogger("stream")


class JsonFormatter(logging.Formatter):
    """One object per line: time, severity, message, and the contents of `extra={"fields": …}`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "severity": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        return json.dumps(line)


def set_up(stream: TextIO) -> None:
    """Write everything from INFO on; of libraries, whose lines may have content, warnings."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    _log.setLevel(logging.INFO)


def say(severity: int, message: str, **fields: Any) -> None:
    """Write a line with fields of its own."""
    _log.log(severity, message, extra={"fields": fields})
