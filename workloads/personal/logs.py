"""Log lines as JSON objects, as Cloud Logging reads them; none has a prompt or a user."""

import json
import sys
import time
from typing import Any


def say(severity: str, message: str, **fields: Any) -> None:
    """Write a line."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = {"time": stamp, "severity": severity, "message": message, **fields}
    sys.stderr.write(json.dumps(line) + "\n")
    sys.stderr.flush()
