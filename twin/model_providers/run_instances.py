"""Instances of models on Cloud Run: simulated engines that start with requests and end when idle.

Rules cloud.run.models and cloud.run.models.times. An instance is a process of this server.
"""

import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from gke_inference.catalogue.cloud_run import run_times
from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths
from twin.host.ports import free_port, listens
from twin.world.engine_times import engine_durations
from twin.world.rules import Rules
from twin.world.run_models import RunModel, may_read, run_models
from twin.world.run_services import Place
from twin.world.store import Store
from workloads.engine.weights_manifest import MANIFEST_NAME

_log = logging.getLogger(__name__)
_HOST: Final = "127.0.0.1"
_MARGIN_SECONDS: Final = 60.0
"""Time that a real process may take beside the simulated start, in real seconds."""
_CHECK_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.05
_NAME: Final = re.compile(r"run-.+-[0-9a-f]{8}-[0-9a-f]{8}-\d+")
_PREFIX: Final = "GKE_INFERENCE_SIM_"
_GRACE_SECONDS: Final = 10.0
"""Time from SIGTERM to SIGKILL (docs.cloud.google.com/run/docs/container-contract)."""


class RunError(Exception):
    """A request that no instance answers."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


@dataclass
class Instance:
    """One engine."""

    name: str
    """Name of its process."""
    model: RunModel
    port: int
    is_ready: bool = False
    active: int = 0
    """Requests that it answers."""
    last: float = field(default_factory=time.monotonic)
    """When its last request ended."""


class RunInstances:
    """All instances of a twin. Requests wait for one, and idle ones end."""

    def __init__(
        self,
        paths: TwinPaths,
        command: Callable[[RunModel, int], list[str]] | None = None,
    ) -> None:
        """Take the twin. Tests give the command of an instance, from its model and port."""
        self._paths, self._store = paths, Store(paths.cloud_db)
        self._command = command or _command
        self._changed = threading.Condition()
        self._instances: list[Instance] = []
        self._waiting: dict[str, int] = {}
        self._failures: dict[str, int] = {}
        self._started = 0

    def model_at(self, host: str) -> RunModel | None:
        """Return the model of a host name, or None if no service of the twin has it."""
        if not host.endswith(".run.app"):
            return None
        return next((each for each in run_models(self._store) if each.has_host(host)), None)

    @contextmanager
    def taken(self, model: RunModel) -> Generator[Place]:
        """Yield an instance with room for a request, for its duration.

        Raises:
            RunError: All instances are busy (429), none starts (503), or the request's time ends
                before one does (504).
        """
        instance = self._take(model)
        try:
            yield Place(_HOST, instance.port, 1, model.timeout_seconds)
        finally:
            with self._changed:
                instance.active -= 1
                instance.last = time.monotonic()
                self._changed.notify_all()

    def count(self, service_id: str) -> int:
        """Return the number of instances of a service, those that start included."""
        with self._changed:
            return sum(each.model.service_id == service_id for each in self._instances)

    def run(self, stop: threading.Event) -> None:
        """Start the minimum of instances and end idle ones, until `stop` is set."""
        former = [name for name in processes.running(self._paths) if _NAME.fullmatch(name)]
        processes.stop(self._paths, *former)  # of a server that ended before
        while not stop.wait(_CHECK_SECONDS):
            self.check()

    def check(self) -> None:
        """Start missing minimum instances; end idle ones, and those of former revisions."""
        models = {each.service_id: each for each in run_models(self._store)}
        idle = run_times().idle_minutes * 60 / self._speed
        with self._changed:
            ended: list[Instance] = []
            for each in self._instances:
                model = models.get(each.model.service_id)
                is_former = model is None or model.revision != each.model.revision
                kept = 0 if model is None else model.least
                mine = [one for one in self._instances if one.model == each.model]
                is_spare = sum(one not in ended for one in mine) > kept
                is_idle = each.is_ready and time.monotonic() - each.last > idle and is_spare
                if each.active == 0 and (is_former or is_idle):
                    ended.append(each)
            self._instances = [each for each in self._instances if each not in ended]
            for model in models.values():
                mine = [each for each in self._instances if each.model == model]
                for _ in range(model.least - len(mine)):
                    self._start(model)
        for each in ended:
            processes.stop(self._paths, each.name, grace=_GRACE_SECONDS)

    def close(self) -> None:
        """End all instances."""
        with self._changed:
            names = [each.name for each in self._instances]
            self._instances = []
        processes.stop(self._paths, *names)

    @property
    def _speed(self) -> float:
        return Rules.of(self._paths).speed

    def _take(self, model: RunModel) -> Instance:
        begun, key = time.monotonic(), _key(model)
        queue = run_times().queue_seconds / self._speed
        with self._changed:
            failed = self._failures.get(key, 0)
            self._waiting[key] = self._waiting.get(key, 0) + 1
            try:
                while True:
                    mine = [each for each in self._instances if each.model == model]
                    free = [each for each in mine if each.is_ready and self._has_room(each)]
                    if free:
                        found = max(free, key=lambda each: each.active)  # fills, then the next
                        found.active += 1
                        return found
                    starting = sum(not each.is_ready for each in mine)
                    waited = time.monotonic() - begun
                    if self._failures.get(key, 0) > failed:
                        raise RunError(
                            503, "The request failed because the instance failed to start"
                        )
                    if waited > model.timeout_seconds:
                        raise RunError(504, "upstream request timeout")
                    if self._waiting[key] > starting * model.concurrency and len(mine) < model.most:
                        self._start(model)
                    elif starting == 0 and waited > queue:
                        raise RunError(429, "Rate exceeded.")
                    self._changed.wait(_POLL_SECONDS)
            finally:
                self._waiting[key] -= 1

    def _has_room(self, instance: Instance) -> bool:
        return instance.active < instance.model.concurrency

    def _start(self, model: RunModel) -> None:
        """Begin to start an instance; the lock is held."""
        self._started += 1
        digest = sha256(model.service_id.encode()).hexdigest()[:8]
        name = f"run-{model.name}-{digest}-{model.revision}-{self._started}"
        instance = Instance(name, model, free_port())
        self._instances.append(instance)
        threading.Thread(target=self._bring_up, args=(instance,), daemon=True).start()

    def _bring_up(self, instance: Instance) -> None:
        model, rules = instance.model, Rules.of(self._paths)
        time.sleep(run_times().instance_seconds / rules.speed)
        problem = self._missing(model)
        try:
            if problem is not None:
                raise processes.ProcessError(problem)
            process = processes.start(
                self._paths,
                instance.name,
                self._command(model, instance.port),
                _environment(instance, rules),
            )
            processes.wait_ready(
                self._paths,
                instance.name,
                process,
                lambda: listens(instance.port, _HOST),
                model.startup_seconds / rules.speed + _MARGIN_SECONDS,
            )
        except processes.ProcessError as error:
            _log.warning("instance %s does not start: %s", instance.name, error)
            processes.stop(self._paths, instance.name)
            with self._changed:
                key = _key(model)
                self._failures[key] = self._failures.get(key, 0) + 1
                self._instances = [each for each in self._instances if each is not instance]
                self._changed.notify_all()
            return
        with self._changed:
            instance.is_ready, instance.last = True, time.monotonic()
            is_kept = any(each is instance for each in self._instances)
            self._changed.notify_all()
        if not is_kept:
            processes.stop(self._paths, instance.name)

    def _missing(self, model: RunModel) -> str | None:
        """Return why an instance cannot read its weights, or None if it can."""
        if model.weights is None:
            return None
        bucket, folder = model.weights
        if not may_read(self._store, model.account, bucket):
            return f"{model.account} may not read gs://{bucket}"
        if not (self._paths.gcs / bucket / folder / MANIFEST_NAME).is_file():
            return f"gs://{bucket}/{folder} has no {MANIFEST_NAME}"
        return None


def _key(model: RunModel) -> str:
    return f"{model.service_id} {model.revision}"


def _command(model: RunModel, port: int) -> list[str]:
    """Return the simulated server, on a port of this machine."""
    kept = [word for word in model.arguments if not word.startswith("--port=")]
    return [sys.executable, "-m", "simulator.server", *kept, f"--port={port}"]


def _environment(instance: Instance, rules: Rules) -> dict[str, str]:
    simulated = {
        "ACCELERATOR": instance.model.accelerator,
        "CHIPS": "1",
        "DURATIONS": json.dumps(engine_durations(rules)),
        "POD": instance.name,
        "POD_IP": _HOST,
        "SPEED": str(rules.speed),
    }
    return {
        **dict(instance.model.variables),
        **{f"{_PREFIX}{name}": value for name, value in simulated.items()},
        "K_SERVICE": instance.model.name,
        "PATH": os.environ["PATH"],
        "PORT": str(instance.port),
        "PYTHONPATH": str(REPOSITORY),
    }
