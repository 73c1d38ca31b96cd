"""Triton Inference Server 26.06 with ONNX models: real answers of ONNX Runtime, on this machine.

The Open Inference Protocol is on two ports, HTTP and gRPC, and the metrics are on a third. Flags,
routes, bodies, errors and metrics are those of triton-inference-server/server at v2.70.0
(`src/http_server.cc`) and of triton-inference-server/core (`src/infer_request.cc`), BSD-3-Clause.
Not there: backends other than ONNX Runtime, sequences, shared memory, classification, compression
and statistics. A request for them is rejected.
"""

import asyncio
import json
import logging
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from simulator.dialects.flags import CommandLine
from simulator.dialects.predictive_calls import PredictiveCalls
from simulator.dialects.predictive_config import described
from simulator.dialects.predictive_metrics import ServerMetrics
from simulator.dialects.predictive_models import BackendError, Model, load
from simulator.dialects.predictive_tensors import HEADER_LENGTH, TritonError, read, write
from simulator.engine import device_memory
from simulator.engine.settings import EngineError, Surroundings
from simulator.server.generation import POD_HEADER
from simulator.server.running import SICK_FACTOR
from workloads.common.serving import stopping

_VERSION = "2.70.0"
_EXTENSIONS = ("model_configuration", "binary_tensor_data", "parameters")
"""Those of Triton's that this server has."""
_MODEL = re.compile(
    r"/v2/models/([^/]+)(?:/versions/([0-9]+))?"
    r"(?:/(infer|generate|generate_stream|ready|config|stats|trace/setting))?"
)
_BATCH = re.compile(r"(?:onnxruntime,)?default-max-batch-size=(\d+)")
_LARGEST_BODY = 64 * 2**20
_STOP_SECONDS = 25
_LINE = CommandLine("tritonserver", "tritonserver")
_log = logging.getLogger("tritonserver")


@dataclass(frozen=True)
class Settings:
    """A server's command line."""

    repository: Path
    http_port: int
    grpc_port: int | None
    """None without gRPC."""
    metrics_port: int
    default_batch: int | None
    surroundings: Surroundings


def settle(argv: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the arguments of `tritonserver`.

    Raises:
        EngineError: Triton would not start.
        SystemExit: status 2 with argparse's message.
    """
    flags = _LINE.parse(argv, model_repository=True)
    surroundings = Surroundings.of(environment)
    given = str(flags.model_repository)
    folder = surroundings.host_path(given) or Path(given)
    if not folder.is_dir():
        raise EngineError(f"failed to stat the root directory {given} for the model repository")
    batch = _BATCH.fullmatch(flags.backend_config or "")
    return Settings(
        folder,
        int(flags.http_port or 8000),
        None if flags.allow_grpc == "false" else int(flags.grpc_port or 8001),
        int(flags.metrics_port or 8002),
        None if batch is None else int(batch[1]),
        surroundings,
    )


class PredictiveServer:
    """Triton's HTTP API in front of the models of a repository."""

    def __init__(self, models: Mapping[str, Model], metrics: ServerMetrics, pod: str) -> None:
        self._models = models
        self._metrics = metrics
        self._pod = pod
        self.is_ready = True
        """Whether it accepts requests; false once it ends."""
        self.api = web.Application(client_max_size=_LARGEST_BODY)
        self.api.router.add_route("*", "/{path:.*}", self._answered)
        self.api.on_response_prepare.append(_without_software)
        self.pages = web.Application()
        self.pages.router.add_get("/metrics", self._page)

    async def _page(self, _http: web.Request) -> web.Response:
        return web.Response(text=self._metrics.page())

    async def _answered(self, http: web.Request) -> web.Response:
        try:
            return await self._routed(http)
        except TritonError as error:
            return _json({"error": str(error)}, status=error.status)

    async def _routed(self, http: web.Request) -> web.Response:
        if http.path in ("/v2/health/live", "/v2/health/ready"):
            if http.method != "GET":
                raise TritonError(405, "Method Not Allowed")
            good = self.is_ready or http.path.endswith("live")
            return web.Response(status=200 if good else 400)
        if http.path == "/v2":
            self._check_method(http, "GET")
            own = {"name": "triton", "version": _VERSION, "extensions": list(_EXTENSIONS)}
            return _json(own)
        found = _MODEL.fullmatch(http.path)
        if found is None:
            raise TritonError(404, "Not Found")
        name, version, kind = found[1], found[2], found[3]
        handlers: dict[str | None, Callable[[Model], web.Response]] = {
            None: self._metadata,
            "config": self._config,
        }
        if kind == "infer":
            self._check_method(http, "POST")
            return await self._infer(http, self._model(name, version))
        self._check_method(http, "GET")
        if kind == "ready":
            return web.Response(status=200 if self._has(name, version) else 400)
        if kind in handlers:
            return handlers[kind](self._model(name, version))
        raise TritonError(501, f"{kind} is not available on the twin")

    def _check_method(self, http: web.Request, method: str) -> None:
        if http.method != method:
            raise TritonError(405, "Method Not Allowed")

    def _has(self, name: str, version: str | None) -> bool:
        found = self._models.get(name)
        return found is not None and version in (None, found.version)

    def _model(self, name: str, version: str | None) -> Model:
        if not self._has(name, version):
            of = "" if version is None or name not in self._models else f" version {version}"
            raise TritonError(400, f"Request for unknown model: '{name}'{of} is not found")
        return self._models[name]

    def _metadata(self, model: Model) -> web.Response:
        return _json(model.metadata())

    def _config(self, model: Model) -> web.Response:
        return _json(described(model.config))

    async def _infer(self, http: web.Request, model: Model) -> web.Response:
        if http.headers.get("Content-Encoding", "identity") != "identity":
            raise TritonError(400, "compression is not available on the twin")
        question = read(await http.read(), http.headers.get(HEADER_LENGTH), model)
        try:
            outputs = await model.infer(question.inputs, question.size)
        except BackendError as error:
            raise TritonError(500, str(error)) from error
        body, length = write(question, outputs, model)
        headers = {POD_HEADER: self._pod} if self._pod else {}
        if length is None:
            return web.Response(body=body, content_type="application/json", headers=headers)
        headers[HEADER_LENGTH] = str(length)
        return web.Response(body=body, content_type="application/octet-stream", headers=headers)


async def serve(settings: Settings) -> None:
    """Load the models and serve until SIGTERM or SIGINT; open requests are answered.

    SIGUSR1 simulates a faulty accelerator, until SIGUSR2.

    Raises:
        EngineError: A model cannot be loaded.
        OSError: A port is in use.
    """
    stop, loop = stopping(), asyncio.get_running_loop()
    around = settings.surroundings
    start = around.durations.get("initialise", 0.0) / around.speed
    metrics = ServerMetrics()
    models = await asyncio.to_thread(load, settings.repository, settings.default_batch, metrics)
    files = (each for each in settings.repository.rglob("*") if each.is_file())
    weights = sum(each.stat().st_size for each in files)
    device_memory.write(os.environ, around.accelerator, around.chips, weights)
    await _either(stop, start)
    if stop.is_set():
        return

    def slow_down(factor: float) -> None:
        for model in models.values():
            model.slowdown = factor

    loop.add_signal_handler(signal.SIGUSR1, slow_down, SICK_FACTOR)
    loop.add_signal_handler(signal.SIGUSR2, slow_down, 1.0)
    server = PredictiveServer(models, metrics, around.pod)
    for model in models.values():
        model.start()
    runners = [
        await _listen(app, around.address, port)
        for app, port in ((server.pages, settings.metrics_port), (server.api, settings.http_port))
    ]
    _log.info("Started HTTPService at %s:%s", around.address, settings.http_port)
    calls = PredictiveCalls(models, around.pod)
    if settings.grpc_port is not None:
        await calls.start(around.address, settings.grpc_port)
        _log.info("Started GRPCInferenceService at %s:%s", around.address, settings.grpc_port)
    await stop.wait()
    _log.info("Waiting for in-flight requests to complete.")
    server.is_ready = False
    await calls.stop(_STOP_SECONDS)
    for runner in reversed(runners):
        await runner.cleanup()
    for model in models.values():
        await model.stop()


async def _either(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


async def _listen(app: web.Application, address: str, port: int) -> web.AppRunner:
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, shutdown_timeout=_STOP_SECONDS
    )
    await runner.setup()
    await web.TCPSite(runner, address, port, backlog=2048).start()
    return runner


async def _without_software(_http: web.Request, response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)


def _json(body: Any, status: int = 200) -> web.Response:
    return web.Response(
        text=json.dumps(body, separators=(",", ":")), status=status, content_type="application/json"
    )
