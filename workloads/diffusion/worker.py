"""Worker process that generates batches on one chip, with one copy of each model that it holds.

It reads messages from standard input in a thread, so that a cancellation takes effect between two
denoising steps, and answers on standard output. It ends when its input ends.
"""

import base64
import importlib
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO

from workloads.common import logs

from . import frames
from .adapters import Adapter, Weighted
from .config import Settings
from .work import Batch, Edit, Lap, Pipeline

_OF_WHOLE_NODE = (
    "CHIPS_PER_HOST_BOUNDS",
    "HOST_BOUNDS",
    "TPU_ACCELERATOR_TYPE",
    "TPU_CHIPS_PER_HOST_BOUNDS",
    "TPU_HOST_BOUNDS",
    "TPU_TOPOLOGY",
)
"""Variables of GKE's TPU device plugin that describe all chips of a node."""
_FIRST_PORT = 8476
"""libtpu's default port for its processes to find each other."""


def chip_environment(
    settings: Settings, number: int, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment in which a worker uses only one chip.

    Bounds of one chip and one process, and a port of its own, let libtpu run once for each chip of
    a host (gist.github.com/skye/f82ba45d2445bb19d53545538754f9a3). What the pod says about the
    whole node contradicts them and is left out, as torch_tpu does for its tests
    (`ci/tools/parallel_accelerator_execute.sh`, 2026).
    """
    if settings.platform == "cpu":
        return {**inherited, "JAX_PLATFORMS": "cpu"}
    port = _FIRST_PORT + number
    return {
        **{name: value for name, value in inherited.items() if name not in _OF_WHOLE_NODE},
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "JAX_PLATFORMS": "tpu",
        "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
        "TPU_MESH_CONTROLLER_ADDRESS": f"localhost:{port}",
        "TPU_MESH_CONTROLLER_PORT": str(port),
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_VISIBLE_CHIPS": str(number),
    }


def factory(name: str) -> Callable[[Settings, Callable[[str], None]], Pipeline]:
    """Return the function that creates a pipeline.

    Raises:
        ValueError: The name is not `MODULE:FUNCTION`, or does not exist.
    """
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module, __package__), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"pipeline: must be MODULE:FUNCTION, got {name!r}: {error}") from error


class Worker:
    """Main loop of a worker process.

    Args:
        settings: Settings of the server.
        number: Number of its chip, which determines the models that it holds.
        receive: Stream of the server's messages.
        send: Stream for responses.
    """

    def __init__(self, settings: Settings, number: int, receive: BinaryIO, send: BinaryIO) -> None:
        self._settings = settings
        self._models = settings.held[number]
        self._receive = receive
        self._send = send
        self._sending = threading.Lock()
        self._batches: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._cancelled: set[int] = set()
        self._forgotten: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._timings: list[tuple[str, float]] = []
        self._pipelines: dict[str, Pipeline] = {}

    def run(self) -> None:
        """Load, report it, and generate until the server ends."""
        threading.Thread(target=self._listen, daemon=True).start()
        # models of one server are all of images, or all of videos
        load = factory(self._settings.pipeline or self._settings.family.pipeline)
        for name in self._models:
            say = partial(self._say, name)
            self._pipelines[name] = load(self._settings.bases[name], say)
            self._pipelines[name].warm(say)
        facts = {name: pipeline.facts() for name, pipeline in self._pipelines.items()}
        self._tell(op="ready", facts=facts)
        while (message := self._batches.get()) is not None:
            self._forget()
            if message["op"] == "draw":
                self._draw(message)

    def _draw(self, message: dict[str, Any]) -> None:
        number: int = message["number"]
        batch = _batch(message["batch"])
        self._timings = []

        def is_cancelled() -> bool:
            self._forget()  # between two steps: an adapter that is gone waits for no batch
            return number in self._cancelled

        def show(index: int, files: list[bytes]) -> None:
            self._tell(op="preview", number=number, index=index, images=_in_base64(files))

        try:
            pipeline = self._pipelines[batch.model]
            files = pipeline.generate(batch, is_cancelled, self._measured, show)
        except ValueError as error:
            self._tell(op="refused", number=number, message=str(error))
        else:
            images = None if files is None else _in_base64(files)
            self._tell(op="done", number=number, images=images, timings=self._timings)
        self._cancelled.discard(number)

    def _forget(self) -> None:
        """Remove the adapters that the server reported as deleted."""
        while not self._forgotten.empty():
            adapter = self._forgotten.get()
            if self._settings.model in self._pipelines:
                self._pipelines[self._settings.model].forget(adapter)

    @contextmanager
    def _measured(self, stage: str) -> Generator[Lap]:
        begun, lap = time.monotonic(), Lap(stage)
        yield lap
        self._timings.append((lap.stage, time.monotonic() - begun))

    def _listen(self) -> None:
        while (message := frames.read(self._receive)) is not None:
            if message["op"] == "cancel":
                self._cancelled.add(message["number"])
                continue
            if message["op"] == "forget":
                self._forgotten.put(message["adapter"])
            self._batches.put(message)
        self._batches.put(None)
        # No client is left: a step that takes minutes must not occupy the chip.
        threading.Timer(5.0, os._exit, (0,)).start()

    def _say(self, model: str, doing: str) -> None:
        is_alone = len(self._settings.bases) == 1
        self._tell(op="stage", stage=doing if is_alone else f"{model}: {doing}")

    def _tell(self, **message: Any) -> None:
        with self._sending:
            self._send.write(frames.packed(message))
            self._send.flush()


def _in_base64(files: list[bytes]) -> list[str]:
    return [base64.b64encode(file).decode() for file in files]


def _batch(sent: dict[str, Any]) -> Batch:
    made: dict[str, Any] = {name: tuple(sent[name]) for name in ("prompts", "seeds")}
    made["adapters"] = tuple(
        Weighted(Adapter(**each["adapter"]), each["weight"]) for each in sent["adapters"]
    )
    made["edit"] = None if sent["edit"] is None else Edit(**sent["edit"])
    return Batch(**{**sent, **made})


def main(settings: Settings, number: int) -> None:
    """Run a worker on this process's standard streams; output of libraries goes to the log."""
    send = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    logs.set_up(sys.stderr, logging.INFO, with_tracebacks=True)
    Worker(settings, number, sys.stdin.buffer, send).run()
