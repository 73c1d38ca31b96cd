"""Worker processes of the server: started, monitored and restarted."""

import asyncio
import dataclasses
import enum
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads.common import logs

from . import frames
from .batching import Picture, batch_of
from .config import Settings
from .worker import chip_environment

_TRIES = 3
_WAIT_SECONDS = 0.5
_BROKEN_SECONDS = 60.0
_END_SECONDS = 10.0


class State(enum.StrEnum):
    """State of a worker."""

    STARTING = "starting"
    READY = "ready"
    BROKEN = "broken"


class Refused(Exception):
    """The pipeline cannot generate the requested images."""


class Lost(Exception):
    """The process ended during a batch."""


class Worker:
    """One worker process.

    Args:
        settings: Settings of the server.
        number: Number of its chip.
        changed: Called when it becomes ready for work, or its state changes.
        timed: Called with the seconds of each stage of a batch.
    """

    def __init__(
        self,
        settings: Settings,
        number: int,
        changed: Callable[[], None],
        timed: Callable[[str, float], None],
    ) -> None:
        self._settings = settings
        self.number = number
        self._changed = changed
        self._timed = timed
        self.state = State.STARTING
        self.stage = "starting its process"
        self.pictures: list[Picture] = []
        """Images in progress."""
        self._process: asyncio.subprocess.Process | None = None
        self._batches = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the worker is available."""
        return self.state is State.READY and not self.pictures

    def start(self) -> None:
        """Start; `changed` is called when the worker is ready."""
        self._task = asyncio.create_task(self._keep())

    def draw(self, pictures: list[Picture]) -> None:
        """Generate images of one kind; the future of each gets its file or an error."""
        self.pictures = pictures
        self._batches += 1
        batch = dataclasses.asdict(batch_of(pictures))
        self._send(op="draw", number=self._batches, batch=batch)

    def give_up(self) -> None:
        """Cancel the current images after the current step."""
        self._send(op="cancel", number=self._batches)

    def forget(self, adapter: str) -> None:
        """Unload an adapter that was removed."""
        self._send(op="forget", adapter=adapter)

    async def stop(self) -> None:
        """End the process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _keep(self) -> None:
        """Run the process and restart it.

        If it ends too often before it becomes ready, it is broken, and tried again every minute:
        others may serve, so that nothing restarts the server.
        """
        tries = 0
        while True:
            try:
                was_ready = await self._run()
            except OSError as error:  # no process can be started: out of memory, or of processes
                logs.say(logging.ERROR, f"worker {self.number}: {error}", worker=self.number)
                was_ready = False
            tries = 1 if was_ready else tries + 1
            if tries < _TRIES:
                self._set(State.STARTING, "starting again")
                await asyncio.sleep(_WAIT_SECONDS * tries)
            else:
                self._set(State.BROKEN, f"ended {tries} times before it was ready")
                await asyncio.sleep(_BROKEN_SECONDS)

    async def _run(self) -> bool:
        """Run the process once; return whether it became ready."""
        settings = json.dumps(as_json(self._settings))
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __package__ or "diffusion", "worker"),
            *("--number", str(self.number), "--settings", settings),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=chip_environment(self._settings, self.number, environment()),
        )
        reader = self._process.stdout
        assert reader is not None  # noqa: S101 - a pipe was asked for
        ready = False
        try:
            async with asyncio.timeout(self._settings.start_seconds):
                while not ready and (message := await frames.receive(reader)) is not None:
                    ready = self._hear(message)
            while (message := await frames.receive(reader)) is not None:
                self._hear(message)
        except TimeoutError:
            self._process.kill()
        if self.state is not State.BROKEN:
            self._set(
                State.STARTING, "ended"
            )  # before `_finish`: what waits is for another process
        code = await self._process.wait()
        logs.say(logging.ERROR, f"worker {self.number} ended", worker=self.number, exit_code=code)
        self._finish(Lost(f"worker {self.number} ended with {code}"))
        return ready

    def _hear(self, message: dict[str, Any]) -> bool:
        """Process a message; return whether the worker is ready now."""
        match message["op"]:
            case "stage":
                self._set(self.state, message["stage"])
            case "ready":
                logs.say(logging.INFO, "ready", worker=self.number, models=message["facts"])
                self._set(State.READY, "ready")
                return True
            case "preview":
                self._show(message["index"], message["images"])
            case "refused":
                self._finish(Refused(message["message"]))
            case _:
                for stage, seconds in message["timings"]:
                    self._timed(stage, seconds)
                self._finish(None, message["images"])
        return False

    def _show(self, index: int, images: list[str]) -> None:
        for picture, image in zip(self.pictures, images, strict=True):
            if picture.show is not None and not picture.is_cancelled:
                picture.show(index, image)

    def _finish(self, error: Exception | None, images: list[str] | None = None) -> None:
        pictures, self.pictures = self.pictures, []
        for at, picture in enumerate(pictures):
            if picture.done.done():
                continue
            if error is not None:
                picture.done.set_exception(error)
            elif images is None:
                picture.done.cancel()
            else:
                picture.done.set_result(images[at])
        self._changed()

    def _set(self, state: State, stage: str) -> None:
        if stage != self.stage:
            logs.say(logging.INFO, stage, worker=self.number, state=state.value)
        self.state, self.stage = state, stage
        self._changed()

    def _send(self, **message: Any) -> None:
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(frames.packed(message))


def as_json(settings: Settings) -> dict[str, Any]:
    """Return settings in the format of `config.from_dict`."""
    given = dataclasses.asdict(settings)
    sizes = [f"{width}x{height}" for width, height in settings.sizes]
    return {**given, "sizes": sizes}


def environment() -> dict[str, str]:
    """Return this process's environment, with the package's folder on Python's path."""
    depth = len((__package__ or "diffusion").split("."))
    root = str(Path(__file__).resolve().parents[depth])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path}
