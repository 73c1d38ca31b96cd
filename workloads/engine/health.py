"""How the server is: its stage, and the launcher's own endpoints for probes.

| endpoint | answers 200 |
|---|---|
| `/startz` | once the server serves, and as long as it waits for weights |
| `/healthz` | unless it is broken, or loads and compiles for longer than it may |
| `/readyz` | while it takes requests |
| `/stage` | always |

The kubelet counts the time of a startup probe from the container's start. Weights may come hours
after that, so waiting for them passes the probe, and from then on the launcher counts the time
itself, from the moment the weights are there.
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
    "tgi": ((r"Cuda Graphs are enabled|Warming up model", "warm"),),
    "diffusion": ((r"[Cc]ompil", "compile"), (r"[Ww]arm", "warm")),
}


@dataclass
class State:
    """The stage a server is in; every change is a line of the log."""

    answers: "Callable[[], bool]"
    """Whether the engine's own health is good now."""
    others_serve: "Callable[[], bool]" = lambda: True
    """Whether another container of the pod serves, or is about to."""
    start_seconds: float = 1800.0
    """How long it may load and compile once its weights are there."""
    waits_for: str = ""
    """What is missing of the weights; empty: nothing that anybody knows of."""
    stage: str = "node"
    facts: "dict[str, Any]" = field(default_factory=dict[str, Any])
    """What is known so far: engine, hardware, bytes."""
    _began: float = field(default_factory=time.monotonic)
    _since: float = field(default_factory=time.monotonic)
    _loading_since: "float | None" = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, stage: str, message: str = "", **fields: Any) -> None:
        """Go on to a stage; starting never goes back, as engines repeat lines."""
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
        """Whether it has never served."""
        return self.stage in _STARTING

    def started(self) -> bool:
        """Say whether the startup probe has nothing more to count."""
        waits = self.stage == "weights" and bool(self.waits_for)
        return waits or self.stage in ("serving", "draining", "asleep")

    def healthy(self) -> bool:
        """Say whether it is starting, serving or ending as it should."""
        if self.stage == "broken" or self._is_late():
            return False
        return self.answers() if self.stage == "serving" else True

    def _is_late(self) -> bool:
        began = self._loading_since
        if self.stage not in _LOADING or began is None:
            return False
        return time.monotonic() - began > self.start_seconds

    def ready(self) -> bool:
        """Say whether it takes requests, or leaves them to another container of the pod."""
        if self.stage == "asleep":
            return self.others_serve()
        return self.stage == "serving" and self.answers()

    def described(self) -> "dict[str, Any]":
        """Return what `/stage` says."""
        now = time.monotonic()
        return {
            "stage": self.stage,
            "seconds_in_stage": round(now - self._since, 1),
            "seconds": round(now - self._began, 1),
            **({"waits_for": self.waits_for} if self.waits_for else {}),
            **self.facts,
        }


def serve(state: State, address: str, port: int) -> ThreadingHTTPServer:
    """Answer `/startz`, `/healthz`, `/readyz` and `/stage` in threads of their own.

    Raises:
        OSError: The port is taken.
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
            """Say nothing of probes."""

    server = ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def peer_stage(address: str, port: int) -> "str | None":
    """Return the stage of another launcher of the pod, or None where none answers."""
    try:
        with urllib.request.urlopen(f"http://{address}:{port}/stage", timeout=1.0) as answer:
            return str(json.load(answer)["stage"])
    except (OSError, ValueError, LookupError, http.client.HTTPException):
        return None


def answers(url: str, seconds: float = 2.0) -> bool:
    """Say whether an URL answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:  # noqa: S310 - this pod
            return answer.status < 300
    except (OSError, ValueError, http.client.HTTPException):
        return False


def stage_of(engine: str, line: str) -> "str | None":
    """Return the stage that a line of an engine tells of, or None."""
    for pattern, stage in reversed(_TOLD.get(engine, ())):
        if re.search(pattern, line):
            return stage
    return None
