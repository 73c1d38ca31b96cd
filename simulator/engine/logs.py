"""Log lines as JSON objects in the format of GKE's logging agent."""

import json
import logging
import re
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

LOG: Final = logging.getLogger("vllm")
"""The log of the simulated server; the other servers have one of their own."""
TRACEPARENT = re.compile(r"^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$")
"""W3C's header: trace, parent span, flags."""
_trace: ContextVar[str] = ContextVar("trace", default="")


def trace_id() -> str:
    """Return the trace ID of the current request; empty if there is none."""
    return _trace.get()


@contextmanager
def part_of_trace(headers: Mapping[str, str]) -> Generator[None]:
    """Add the trace ID of a request's `traceparent` to all lines in this context."""
    match = TRACEPARENT.match(headers.get("traceparent", ""))
    token = _trace.set(match.group(1) if match else "")
    try:
        yield
    finally:
        _trace.reset(token)


class JsonFormatter(logging.Formatter):
    """One object per line: time, severity, message, trace and the `extra={"fields": …}`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the formatted line."""
        fields: dict[str, Any] = getattr(record, "fields", {})
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "severity": record.levelname,
            "message": record.getMessage(),
            **({"trace_id": trace_id()} if trace_id() else {}),
            **fields,
        }
        return json.dumps(line)


def set_up() -> None:
    """Write messages of level INFO and above to standard output."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
