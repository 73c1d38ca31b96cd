"""One process, one chip, one copy of the model: draws the batches that it is sent.

It reads messages from its standard input, in a thread, so that a cancellation is seen between two
denoising steps, and answers on its standard output. When its input ends, it ends.
"""

import base64
import importlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, BinaryIO

from . import frames, logs
from .config import Settings
from .work import Batch, Pipeline


def chip_environment(settings: Settings, number: int) -> dict[str, str]:
    """Return the variables by which a worker sees one chip and no other.

    `TPU_VISIBLE_CHIPS` with bounds of one chip and one process makes libtpu of several processes
    share a host (docs.jax.dev and the Cloud TPU guides describe them for one process per chip).
    """
    if settings.platform == "cpu":
        return {"JAX_PLATFORMS": "cpu"}
    return {
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "JAX_PLATFORMS": "tpu",
        "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_VISIBLE_CHIPS": str(number),
    }


def factory(name: str) -> Callable[[Settings, Callable[[str], None]], Pipeline]:
    """Return the function that makes a pipeline.

    Raises:
        ValueError: the name is not `MODULE:FUNCTION`, or there is no such thing.
    """
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module, __package__), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"pipeline: must be MODULE:FUNCTION, got {name!r}: {error}") from error


class Worker:
    """What runs in the process.

    Args:
        settings: of the server.
        receive: the messages of the server.
        send: where answers go.
    """

    def __init__(self, settings: Settings, receive: BinaryIO, send: BinaryIO) -> None:
        self._settings = settings
        self._receive = receive
        self._send = send
        self._batches: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._cancelled: set[int] = set()
        self._timings: list[tuple[str, float]] = []

    def run(self) -> None:
        """Load, say so, and draw until the server is gone."""
        threading.Thread(target=self._listen, daemon=True).start()
        pipeline = factory(self._settings.pipeline)(self._settings, self._say)
        pipeline.warm(self._say)
        self._tell(op="ready", facts=pipeline.facts())
        while (message := self._batches.get()) is not None:
            self._draw(pipeline, message)

    def _draw(self, pipeline: Pipeline, message: dict[str, Any]) -> None:
        number: int = message["number"]
        batch = Batch(**{**message["batch"], **_tuples(message["batch"])})
        self._timings = []
        try:
            files = pipeline.generate(batch, lambda: number in self._cancelled, self._measured)
        except ValueError as error:
            self._tell(op="refused", number=number, message=str(error))
        else:
            images = None if files is None else [base64.b64encode(f).decode() for f in files]
            self._tell(op="done", number=number, images=images, timings=self._timings)
        self._cancelled.discard(number)

    @contextmanager
    def _measured(self, stage: str) -> Generator[None]:
        begun = time.monotonic()
        yield
        self._timings.append((stage, time.monotonic() - begun))

    def _listen(self) -> None:
        while (message := frames.read(self._receive)) is not None:
            if message["op"] == "cancel":
                self._cancelled.add(message["number"])
            else:
                self._batches.put(message)
        self._batches.put(None)
        # Nobody is left to draw for: a step that takes minutes must not keep the chip.
        threading.Timer(5.0, os._exit, (0,)).start()

    def _say(self, doing: str) -> None:
        self._tell(op="stage", stage=doing)

    def _tell(self, **message: Any) -> None:
        self._send.write(frames.packed(message))
        self._send.flush()


def _tuples(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(batch[name]) for name in ("prompts", "seeds")}


def main(settings: Settings) -> None:
    """Run a worker on this process's standard streams; what libraries print goes to the log."""
    send = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    logs.set_up(sys.stderr)
    Worker(settings, sys.stdin.buffer, send).run()
