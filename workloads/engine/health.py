"""The stage of the server, and the launcher's endpoints for probes.

| endpoint | returns 200 |
|---|---|
| `/startz` | once the server serves, and while it waits for weights |
| `/healthz` | unless it is broken, or exceeds the limit for loading and compiling |
| `/readyz` | while it accepts requests |
| `/stage` | always |

The kubelet measures the time of a startup probe from the container's start. Weights may arrive
hours later, so the probe passes while the server waits for them. The launcher then measures the
start-up time itself, from the moment the weights exist.
"""

import http.client
import json
import re
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

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
"""Stages in order; `asleep` is the stage of a container whose hardware is absent."""

_ORDER = {stage: at for at, stage in enumerate(STAGES)}
_STARTING = ("node", "weights", "load", "compile", "warm")
_LOADING = ("load", "compile", "warm")
_TOLD: "dict[str, tuple[tuple[str, str], ...]]" = {
    # v1/worker/gpu_model_runner.py, v1/engine/core.py, entrypoints; tpu_inference runner
    "vllm": (
        (
            r"Start compiling|Compiling a graph|bytecode transform|apturing CUDA|[Pp]recompil",
            "compile",
        ),
        (r"Graph capturing finished|init engine .*took|Starting vLLM API", "warm"),
    ),
    # srt/model_executor/model_runner.py
    "sglang": (
        (r"Capture cuda graph begin|torch compile", "compile"),
        (r"Capture cuda graph end|Uvicorn running|warmup", "warm"),
    ),
    "triton": ((r"Started .*Service|Uvicorn running", "warm"),),
    "tritonserver": ((r"Started .*Service", "warm"),),
    "tgi": ((r"Cuda Graphs are enabled|Warming up model", "warm"),),
    "diffusion": ((r"[Cc]ompil", "compile"), (r"[Ww]arm", "warm")),
}


@dataclass
class State:
    """The stage of a server; every change is logged."""

    answers: "Callable[[], bool]"
    """Returns whether the engine's own health check passes."""
    others_serve: "Callable[[], bool]" = lambda: True
    """Returns whether another container of the pod serves or is about to serve."""
    start_seconds: float = 1800.0
    """Time limit for loading and compiling once the weights exist, in seconds."""
    waits_for: str = ""
    """Missing weights; empty if none are known to be missing."""
    stage: str = "node"
    facts: "dict[str, Any]" = field(default_factory=dict[str, Any])
    """Known facts: engine, hardware, bytes."""
    _began: float = field(default_factory=time.monotonic)
    _since: float = field(default_factory=time.monotonic)
    _loading_since: "float | None" = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, stage: str, message: str = "", **fields: Any) -> None:
        """Enter a stage; start-up stages never go back, because engines repeat log lines."""
        with self._lock:
            if _ORDER[stage] <= _ORDER[self.stage]:
                return
            before, seconds = self.stage, time.monotonic() - self._since
            self.stage, self._since = stage, time.monotonic()
            if stage == "load":
                self._loading_since = self._since
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
        """Whether the server has not served yet."""
        return self.stage in _STARTING

    def started(self) -> bool:
        """Return whether the startup probe passes."""
        waits = self.stage == "weights" and bool(self.waits_for)
        return waits or self.stage in ("serving", "draining", "asleep")

    def healthy(self) -> bool:
        """Return whether the server starts, serves or ends as expected."""
        if self.stage == "broken" or self._is_late():
            return False
        return self.answers() if self.stage == "serving" else True

    def _is_late(self) -> bool:
        began = self._loading_since
        if self.stage not in _LOADING or began is None:
            return False
        return time.monotonic() - began > self.start_seconds

    def ready(self) -> bool:
        """Return whether the server, or another container of the pod, accepts requests."""
        if self.stage == "asleep":
            return self.others_serve()
        return self.stage == "serving" and self.answers()

    def described(self) -> "dict[str, Any]":
        """Return the body of `/stage`."""
        now = time.monotonic()
        return {
            "stage": self.stage,
            "seconds_in_stage": round(now - self._since, 1),
            "seconds": round(now - self._began, 1),
            **({"waits_for": self.waits_for} if self.waits_for else {}),
            **self.facts,
        }


def serve(state: State, address: str, port: int) -> ThreadingHTTPServer:
    """Answer `/startz`, `/healthz`, `/readyz` and `/stage` in separate threads.

    Raises:
        OSError: The port is in use.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            good = {
                "/healthz": state.healthy,
                "/readyz": state.ready,
                "/stage": lambda: True,
                "/startz": state.started,
            }
            known = good.get(self.path)
            self.send_response(404 if known is None else 200 if known() else 503)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(state.described()).encode() + b"\n")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
            """Do not log probes."""

    server = ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def peer_stage(address: str, port: int) -> "str | None":
    """Return the stage of another launcher, or None if it does not answer."""
    said = peer(address, port)
    return None if said is None else str(said.get("stage"))


def peer(address: str, port: int) -> "dict[str, Any] | None":
    """Return what another launcher reports about itself, or None if it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{address}:{port}/stage", timeout=1.0) as answer:
            said: Any = json.load(answer)
    except (OSError, ValueError, http.client.HTTPException):
        return None
    return cast("dict[str, Any]", said) if isinstance(said, dict) else None


def answers(url: str, seconds: float = 2.0) -> bool:
    """Return whether a URL returns success."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:  # noqa: S310 - this pod
            return answer.status < 300
    except (OSError, ValueError, http.client.HTTPException):
        return False


def stage_of(engine: str, line: str) -> "str | None":
    """Return the stage that a log line of an engine indicates, or None."""
    for pattern, stage in reversed(_TOLD.get(engine, ())):
        if re.search(pattern, line):
            return stage
    return None
