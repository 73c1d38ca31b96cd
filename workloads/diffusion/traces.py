"""The trace of a request, for log lines."""

import re
import secrets

_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def trace_of(traceparent: str | None) -> str:
    """Return the trace of a W3C `traceparent`, or a new one."""
    match = _PARENT.fullmatch((traceparent or "").strip().lower())
    return match.group(1) if match else secrets.token_hex(16)
