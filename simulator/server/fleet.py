"""Many replicas in one process: `python -m simulator.server.fleet CONFIG.json`.

Each replica is a complete engine with its own address and port, flags, accelerator, LoRA adapters
and metrics page; replicas share only the event loop. The routing laboratory uses a fleet to measure
gateways, because eight engines with a hundred running requests each then use one core instead of
eight processes.

The configuration::

    {"speed": 1,
     "control": {"address": "127.0.0.1", "port": 9900},
     "replicas": [
       {"name": "h100-0", "address": "127.0.1.1", "port": 8000,
        "accelerator": "nvidia-h100-80gb", "chips": 2,
        "flags": ["Qwen/Qwen3-32B", "--tensor-parallel-size=2", "--stream-interval=16"]}]}

`speed` scales time: at 2, engine time runs twice as fast as real time, so a step takes half as long
for the client, but metrics are still in engine seconds. Load generators divide intervals between
arrivals by it and multiply measured times by it. The header `x-gke-inference-speed` of each
response and the control page show it.

Control, JSON: `GET /replicas`; `POST /replicas/NAME/start`; `POST /replicas/NAME/stop` (like
SIGTERM); `POST /replicas/NAME/kill` (connections break); `POST /replicas/NAME/slow` with
`{"factor": 3}`.
"""

import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from simulator.engine import logs
from simulator.engine.clock import WallClock
from simulator.engine.engine import Engine
from simulator.engine.logs import LOG
from simulator.engine.settings import PREFIX, EngineError, deploy
from simulator.server.server import ApiServer
from simulator.server.startup import start_up
from twin.engines import vllm_flags as flags
from workloads.common.serving import stopping

_LAG_PROBE_SECONDS = 0.05


class ReplicaConfig(BaseModel):
    """One replica."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(min_length=1)
    address: str = "127.0.0.1"
    port: int = Field(ge=1, le=65_535)
    accelerator: str = "cpu"
    chips: int = Field(default=1, ge=1)
    flags: tuple[str, ...] = Field(min_length=1)
    """Arguments of `vllm serve`: the model, then flags."""
    environment: Mapping[str, str] = Field(default_factory=dict[str, str])
    """Additional environment variables, such as `GKE_INFERENCE_SIM_DURATIONS`."""
    slowdown: float = Field(default=1.0, gt=0)
    """Slowdown factor of its steps."""
    running: bool = True
    """Whether it starts with the fleet."""


class ControlConfig(BaseModel):
    """Address of the fleet's control page."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    address: str = "127.0.0.1"
    port: int = Field(ge=1, le=65_535)


class FleetConfig(BaseModel):
    """All replicas of one process."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    replicas: tuple[ReplicaConfig, ...] = Field(min_length=1)
    control: ControlConfig | None = None
    speed: float = Field(default=1.0, gt=0)
    """Engine seconds per second of real time."""

    @field_validator("replicas")
    @classmethod
    def _names_and_ports_are_unique(
        cls, replicas: tuple[ReplicaConfig, ...]
    ) -> tuple[ReplicaConfig, ...]:
        for what, values in (
            ("name", [replica.name for replica in replicas]),
            ("address and port", [f"{replica.address}:{replica.port}" for replica in replicas]),
        ):
            twice = {value for value in values if values.count(value) > 1}
            if twice:
                raise ValueError(f"each replica needs its own {what}, got {min(twice)} twice")
        return replicas


class Replica:
    """A replica: stopped, or an engine with a server. It always starts with a cold cache."""

    def __init__(self, config: ReplicaConfig, speed: float) -> None:
        self.config = config
        self.engine: Engine | None = None
        self._speed = speed
        self._slowdown = config.slowdown
        self._server: ApiServer | None = None
        self._environment = {
            **config.environment,
            PREFIX + "ACCELERATOR": config.accelerator,
            PREFIX + "CHIPS": str(config.chips),
            PREFIX + "POD": config.name,
            PREFIX + "POD_IP": config.address,
        }
        arguments = [*config.flags, f"--port={config.port}"]
        self.deployment = deploy(flags.parse(arguments), self._environment)

    async def start(self) -> None:
        """Run the startup stages and listen; do nothing if it is already running.

        Raises:
            OSError: the port is in use.
        """
        if self._server is not None:
            return
        await start_up(self.deployment, self._environment)
        self.engine = Engine(self.deployment, WallClock(self._speed))
        self.engine.slow_down(self._slowdown)
        self._server = ApiServer(self.engine)
        await self._server.start()

    async def stop(self) -> None:
        """Stop like after SIGTERM: see `ApiServer.stop`."""
        server, self._server, self.engine = self._server, None, None
        if server is not None:
            await server.stop()

    async def kill(self) -> None:
        """Stop like after SIGKILL or the loss of a node: connections break without responses."""
        server, self._server, self.engine = self._server, None, None
        if server is not None:
            await server.kill()

    def slow_down(self, factor: float) -> None:
        """Slow down its steps by `factor`.

        Raises:
            ValueError: the factor is not positive.
        """
        if factor <= 0:
            raise ValueError(f"factor must be above 0, got {factor}")
        self._slowdown = factor
        if self.engine is not None:
            self.engine.slow_down(factor)

    def status(self) -> dict[str, Any]:
        """Return its configuration and state."""
        engine = self.engine
        return {
            "name": self.config.name,
            "url": f"http://{self.config.address}:{self.config.port}",
            "accelerator": self.config.accelerator,
            "model": self.deployment.served_names[0],
            "kv_blocks": self.deployment.kv_blocks,
            "block_size": self.deployment.block_size,
            "slowdown": self._slowdown,
            "running": engine is not None,
            "requests_running": len(engine.scheduler.running) if engine else 0,
            "requests_waiting": len(engine.scheduler.waiting) if engine else 0,
            "steps": engine.core.steps if engine else 0,
        }


class Fleet:
    """Replicas in one event loop.

    Args:
        config: configuration of the fleet.

    Raises:
        EngineError: vLLM would not start one of them.
    """

    def __init__(self, config: FleetConfig) -> None:
        self.speed = config.speed
        self._control = config.control
        self.replicas = {entry.name: Replica(entry, config.speed) for entry in config.replicas}
        self._runner: web.AppRunner | None = None
        self._probe: asyncio.Task[None] | None = None
        self._lag = 0.0

    async def start(self) -> None:
        """Start the control page and all replicas that start with the fleet.

        Raises:
            OSError: a port is in use.
        """
        wanted = [replica for replica in self.replicas.values() if replica.config.running]
        await asyncio.gather(*(replica.start() for replica in wanted))
        self._probe = asyncio.create_task(self._watch_lag())
        if self._control is not None:
            self._runner = web.AppRunner(self._app(), access_log=None, handle_signals=False)
            await self._runner.setup()
            await web.TCPSite(self._runner, self._control.address, self._control.port).start()

    async def stop(self) -> None:
        """Stop everything."""
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)
        await asyncio.gather(*(replica.stop() for replica in self.replicas.values()))
        if self._runner is not None:
            await self._runner.cleanup()

    async def _watch_lag(self) -> None:
        """Record the longest delay of the event loop."""
        while True:
            due = time.monotonic() + _LAG_PROBE_SECONDS
            await asyncio.sleep(_LAG_PROBE_SECONDS)
            self._lag = max(self._lag, time.monotonic() - due)

    def status(self) -> dict[str, Any]:
        """Return the speed, the load of this process, and all replicas.

        `longest_lag_seconds` is the longest delay of the process since the last call. Times
        measured by clients can be too long by up to this value.
        """
        lag, self._lag = self._lag, 0.0
        return {
            "speed": self.speed,
            "cpu_seconds": time.process_time(),
            "longest_lag_seconds": lag,
            "replicas": [replica.status() for replica in self.replicas.values()],
        }

    def _app(self) -> web.Application:
        app = web.Application()
        app.add_routes(
            [
                web.get("/replicas", self._show),
                web.post("/replicas/{name}/{verb:start|stop|kill|slow}", self._do),
            ]
        )
        return app

    async def _show(self, _http: web.Request) -> web.Response:
        return web.json_response(self.status())

    async def _do(self, http: web.Request) -> web.Response:
        replica = self.replicas.get(http.match_info["name"])
        if replica is None:
            return web.json_response({"error": "no such replica"}, status=404)
        verb = http.match_info["verb"]
        if verb == "slow":
            try:
                replica.slow_down(float((await http.json())["factor"]))
            except (ValueError, KeyError, TypeError) as error:
                return web.json_response({"error": f"slow needs a factor: {error}"}, status=400)
        else:
            await {"start": replica.start, "stop": replica.stop, "kill": replica.kill}[verb]()
        return web.json_response(replica.status())


async def _serve(config: FleetConfig) -> None:
    stop = stopping()
    fleet = Fleet(config)
    await fleet.start()
    LOG.info("fleet ready", extra={"fields": {"replicas": len(fleet.replicas)}})
    await stop.wait()
    await fleet.stop()


def main() -> None:
    """Run a fleet; status 2 for an invalid configuration, 1 if vLLM would not start."""
    logs.set_up()
    try:
        config = FleetConfig.model_validate_json(Path(sys.argv[1]).read_text())
    except (IndexError, OSError, ValidationError) as error:
        sys.stderr.write(f"usage: python -m simulator.server.fleet CONFIG.json: {error}\n")
        sys.exit(2)
    try:
        uvloop.run(_serve(config))
    except (EngineError, OSError) as error:
        LOG.error("%s: %s", type(error).__name__, error)
        sys.exit(1)


if __name__ == "__main__":
    main()
