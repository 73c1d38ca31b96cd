"""Log lines as JSON objects, as GKE's logging agent wants them."""

import json
import logging
import sys
import time
from typing import Any


class JsonFormatter(logging.Formatter):
    """One object a line: time, severity, message and what `extra={"fields": …}` holds."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, Any] = getattr(record, "fields", {})
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "severity": record.levelname,
            "message": record.getMessage(),
            **fields,
        }
        return json.dumps(line)


def set_up() -> None:
    """Write everything from INFO on to standard output."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
