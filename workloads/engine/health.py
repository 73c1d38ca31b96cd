"""How the server is: its stage, and the launcher's own endpoints for probes."""

import http.client
import json
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .log import say

STAGES = (
    "node",
    "weights",
    "load",
    "compile",
    "warm",
    "serving",
    "draining",
    "asleep",
    "broken",
)
"""In the order in which they come; `asleep` is the container of a pod whose hardware is absent."""

_ORDER = {stage: at for at, stage in enumerate(STAGES)}
_STARTING = ("node", "weights", "load", "compile", "warm")


@dataclass
class State:
    """The stage a server is in; every change is a line of the log."""

    answers: "Callable[[], bool]"
    """Whether the engine's own health is good now."""
    stage: str = "node"
    facts: "dict[str, Any]" = field(default_factory=dict[str, Any])
    """What is known so far: engine, hardware, bytes."""
    _began: float = field(default_factory=time.monotonic)
    _since: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, stage: str, message: str = "", **fields: Any) -> None:
        """Go on to a stage; starting never goes back, as engines repeat lines."""
        with self._lock:
            if _ORDER[stage] <= _ORDER[self.stage]:
                return
            before, seconds = self.stage, time.monotonic() - self._since
            self.stage, self._since = stage, time.monotonic()
        say(
            "ERROR" if stage == "broken" else "INFO",
            message or f"stage {stage} after {before} ({seconds:.1f} s)",
            stage=stage,
            after=before,
            seconds=round(seconds, 3),
            **fields,
        )

    @property
    def is_starting(self) -> bool:
        """Whether it has never served."""
        return self.stage in _STARTING

    def healthy(self) -> bool:
        """Say whether it is starting, serving or ending as it should."""
        if self.stage == "broken":
            return False
        return self.answers() if self.stage == "serving" else True

    def ready(self) -> bool:
        """Say whether it takes requests, or never will and that is right."""
        if self.stage == "asleep":
            return True
        return self.stage == "serving" and self.answers()

    def described(self) -> "dict[str, Any]":
        """Return what `/stage` says."""
        now = time.monotonic()
        return {
            "stage": self.stage,
            "seconds_in_stage": round(now - self._since, 1),
            "seconds": round(now - self._began, 1),
            **self.facts,
        }


def serve(state: State, address: str, port: int) -> ThreadingHTTPServer:
    """Answer `/healthz`, `/readyz` and `/stage` in threads of their own.

    Raises:
        OSError: The port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            good = {"/healthz": state.healthy, "/readyz": state.ready, "/stage": lambda: True}
            known = good.get(self.path)
            self.send_response(404 if known is None else 200 if known() else 503)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(state.described()).encode() + b"\n")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
            """Say nothing of probes."""

    server = ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def answers(url: str, seconds: float = 2.0) -> bool:
    """Say whether an URL answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:  # noqa: S310 - this pod
            return answer.status < 300
    except (OSError, ValueError, http.client.HTTPException):
        return False
