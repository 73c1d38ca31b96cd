"""A model repository: each model with its configuration, its ONNX session and its scheduler."""

import asyncio
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from simulator.dialects import predictive_config as configuration
from simulator.dialects.predictive_config import type_name, type_number
from simulator.dialects.predictive_metrics import ServerMetrics
from simulator.dialects.predictive_schema import TYPES
from simulator.engine.settings import EngineError

_RUNTIME: Any = onnxruntime
_BACKENDS = ("", "onnxruntime")
_PLATFORM = "onnxruntime_onnx"
_DEFAULT_BATCH = 4
"""Largest batch without `config.pbtxt` and flag (docs/user_guide/model_configuration.md)."""
_ONNX_TYPES = {"tensor(float)": "FP32", "tensor(double)": "FP64", "tensor(float16)": "FP16"}

Tensors = Mapping[str, Any]
"""NumPy arrays by name."""


class BackendError(Exception):
    """ONNX Runtime could not compute an answer."""


@dataclass
class _Pending:
    """A request in the queue of a model."""

    inputs: Tensors
    size: int
    """Its batch size; 1 for a model without batches."""
    arrived: float
    answer: "asyncio.Future[Tensors]"

    @property
    def shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Shapes without the batch: only equal ones are computed together."""
        return sorted((name, value.shape[1:]) for name, value in self.inputs.items())


class Model:
    """One model, its latest version.

    Args:
        name: Name of its folder.
        version: Number of the version.
        config: Complete `ModelConfig`.
        session: ONNX Runtime's session.
        metrics: Metrics of the server.
    """

    def __init__(
        self, name: str, version: int, config: Any, session: Any, metrics: ServerMetrics
    ) -> None:
        self.name = name
        self.version = str(version)
        self.config = config
        self.slowdown = 1.0
        """Factor by which an execution takes longer than it does."""
        self._session = session
        self._metrics = metrics
        self._queue: deque[_Pending] = deque()
        self._arrived = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._threads = ThreadPoolExecutor(self._instances)
        metrics.add_model(name, self.version)

    @property
    def max_batch(self) -> int:
        """Largest batch; 0 for a model without batches."""
        return int(self.config.max_batch_size)

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return [each.name for each in self.config.output]

    def metadata(self) -> dict[str, Any]:
        """Return the answer to a request for the model's metadata."""
        batch = [-1] if self.max_batch else []

        def listed(tensors: Any) -> list[dict[str, Any]]:
            return [
                {
                    "name": each.name,
                    "datatype": type_name(each.data_type),
                    "shape": [*batch, *each.dims],
                }
                for each in tensors
            ]

        return {
            "name": self.name,
            "versions": [self.version],
            "platform": self.config.platform,
            "inputs": listed(self.config.input),
            "outputs": listed(self.config.output),
        }

    @property
    def _instances(self) -> int:
        return sum(max(1, group.count) for group in self.config.instance_group) or 1

    def start(self) -> None:
        """Start the model's instances."""
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._instances)]

    async def stop(self) -> None:
        """End the instances."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._threads.shutdown(wait=False)

    async def infer(self, inputs: Tensors, size: int) -> Tensors:
        """Return the outputs for checked inputs.

        Raises:
            BackendError: ONNX Runtime failed.
        """
        loop = asyncio.get_running_loop()
        pending = _Pending(inputs, max(1, size), time.monotonic(), loop.create_future())
        self._queue.append(pending)
        self._count_pending()
        self._arrived.set()
        try:
            return await pending.answer
        finally:
            if pending in self._queue:  # the client has gone
                self._queue.remove(pending)
                self._count_pending()

    def _count_pending(self) -> None:
        self._metrics.set_pending(self.name, self.version, len(self._queue))

    async def _work(self) -> None:
        while True:
            while not self._queue:
                self._arrived.clear()
                await self._arrived.wait()
            await self._wait_for_more()
            batch = self._next()
            if batch:
                await self._execute(batch)

    async def _wait_for_more(self) -> None:
        """Wait as the dynamic batcher may, unless a whole batch is there."""
        delay = self.config.dynamic_batching.max_queue_delay_microseconds / 1e6
        while self._queue and sum(each.size for each in self._queue) < self.max_batch:
            left = self._queue[0].arrived + delay - time.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(left, 0.001))

    def _next(self) -> list[_Pending]:
        """Take the first request, and those behind it that fit into its batch."""
        if not self._queue:
            return []
        batch = [self._queue.popleft()]
        size = batch[0].size
        is_batched = self.config.HasField("dynamic_batching") and self.max_batch > 0
        while is_batched and self._queue:
            one = self._queue[0]
            if size + one.size > self.max_batch or one.shapes != batch[0].shapes:
                break
            batch.append(self._queue.popleft())
            size += one.size
        self._count_pending()
        return batch

    async def _execute(self, batch: Sequence[_Pending]) -> None:
        began = time.monotonic()
        inputs = {
            name: np.concatenate([each.inputs[name] for each in batch]) if len(batch) > 1 else value
            for name, value in batch[0].inputs.items()
        }
        gathered = time.monotonic()
        loop = asyncio.get_running_loop()
        try:
            values = await loop.run_in_executor(self._threads, self._session.run, None, inputs)
        except Exception as error:  # noqa: BLE001 - of many classes, all of ONNX Runtime
            self._metrics.add_failures(self.name, self.version, "BACKEND", len(batch))
            for each in batch:
                if not each.answer.done():
                    each.answer.set_exception(BackendError(f"onnx runtime error: {error}"))
            return
        computed = time.monotonic()
        if self.slowdown > 1:
            await asyncio.sleep((computed - gathered) * (self.slowdown - 1))
            computed = time.monotonic()
        names = [output.name for output in self._session.get_outputs()]
        at = 0
        for each in batch:
            part = slice(at, at + each.size)
            at += each.size
            own = {
                name: value[part] if len(batch) > 1 else value
                for name, value in zip(names, values, strict=True)
            }
            if not each.answer.done():
                each.answer.set_result(own)
        self._metrics.add_execution(
            self.name,
            self.version,
            sizes=[each.size for each in batch],
            waits=[began - each.arrived for each in batch],
            stages=(gathered - began, computed - gathered, time.monotonic() - computed),
        )


def load(folder: Path, default_batch: int | None, metrics: ServerMetrics) -> dict[str, Model]:
    """Return the models of a repository by name.

    Args:
        folder: The repository.
        default_batch: Largest batch of models without `config.pbtxt`; None for Triton's default.
        metrics: Metrics of the server.

    Raises:
        EngineError: Triton would not start.
    """
    found: dict[str, Model] = {}
    for place in sorted(each for each in folder.iterdir() if each.is_dir()):
        found[place.name] = _model(place, default_batch, metrics)
    if not found:
        raise EngineError(f"no model in the repository {folder}")
    return found


def _model(folder: Path, default_batch: int | None, metrics: ServerMetrics) -> Model:
    name = folder.name
    given = configuration.read(folder / "config.pbtxt")
    is_written = (folder / "config.pbtxt").is_file()
    if given.backend not in _BACKENDS or given.platform not in ("", _PLATFORM):
        word = given.backend or given.platform
        raise EngineError(f"failed to load '{name}': backend {word} is not available on the twin")
    if given.name not in ("", name):
        raise EngineError(
            f"failed to load '{name}': unexpected directory name '{name}' for model "
            f"'{given.name}', directory name must equal model name"
        )
    versions = sorted(int(each.name) for each in folder.iterdir() if each.name.isdigit())
    if not versions:
        raise EngineError(f"failed to load '{name}': at least one version must be available")
    file = folder / str(versions[-1]) / (given.default_model_filename or "model.onnx")
    options = _RUNTIME.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = _RUNTIME.InferenceSession(str(file), options, ["CPUExecutionProvider"])
    except Exception as error:
        raise EngineError(f"failed to load '{name}' version {versions[-1]}: {error}") from error
    batch = _DEFAULT_BATCH if default_batch is None else default_batch
    _complete(given, name, session, None if is_written and given.input else batch)
    return Model(name, versions[-1], given, session, metrics)


def _complete(config: Any, name: str, session: Any, default_batch: int | None) -> None:
    """Add what Triton derives from the model: inputs, outputs, and the batch if it has one."""
    config.name, config.backend, config.platform = name, "onnxruntime", _PLATFORM
    config.default_model_filename = config.default_model_filename or "model.onnx"
    tensors = [*session.get_inputs(), *session.get_outputs()]
    can_batch = all(each.shape and not isinstance(each.shape[0], int) for each in tensors)
    if default_batch is not None and can_batch and not config.max_batch_size:
        config.max_batch_size = default_batch
    if config.max_batch_size > 1 and default_batch is not None:
        config.dynamic_batching.SetInParent()
    if config.max_batch_size and not can_batch:
        raise EngineError(
            f"failed to load '{name}': model '{name}', tensor '{tensors[0].name}': for the model to"
            " support batching the shape should have at least 1 dimension and the first dimension"
            " must be -1"
        )
    sides: tuple[tuple[Any, Any], ...] = (
        (config.input, session.get_inputs()),
        (config.output, session.get_outputs()),
    )
    for listed, real in sides:
        if not listed:
            for each in real:
                dims = each.shape[1:] if config.max_batch_size else each.shape
                dims = [dim if isinstance(dim, int) else -1 for dim in dims]
                number = type_number(_type(each.type))
                listed.add(name=each.name, data_type=number, dims=dims)
        _check(name, listed, {each.name: _type(each.type) for each in real})
    if not config.instance_group:
        config.instance_group.add(name=name, count=1)


def _check(name: str, listed: Any, real: Mapping[str, str]) -> None:
    for each in listed:
        if each.name not in real:
            raise EngineError(
                f"failed to load '{name}': unexpected inference input or output '{each.name}',"
                f" allowed are: {', '.join(real)}"
            )
        if type_name(each.data_type) != real[each.name]:
            raise EngineError(
                f"failed to load '{name}': configuration expects type"
                f" TYPE_{type_name(each.data_type)} for '{each.name}', model provides"
                f" TYPE_{real[each.name]}"
            )


def _type(word: str) -> str:
    """Return Triton's name of an ONNX type such as `tensor(int64)`."""
    plain = re.sub(r"tensor\((.*)\)", r"\1", word)
    found = _ONNX_TYPES.get(word) or plain.upper()
    if found not in TYPES:
        raise EngineError(f"tensors of {plain} are not available on the twin")
    return found
