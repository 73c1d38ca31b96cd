"""One container of a pod: its process, probes and restarts."""

import math
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twin.cluster.agent import records
from twin.cluster.agent.exits import when_ended
from twin.cluster.agent.launching.claims import Kind
from twin.cluster.agent.launching.launcher import put_devices
from twin.cluster.agent.launching.place import Launch
from twin.cluster.agent.probes import Schedule, Target
from twin.cluster.agent.views import View, write_container
from twin.cluster.base.reports import timestamp
from twin.wire.kube import JsonObject
from twin.world.rules import Rules

EventSink = Callable[[str, str, str], None]
"""Takes type, reason and message of a Kubernetes event."""
_LOST_EXIT_CODE = 137
_START_EXIT_CODE = 128
"""Exit code of a container that the runtime could not start (containerd, StartError)."""
_RUNTIME = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: unable to start container process: error during container init: "
)


@dataclass
class Container:
    """A container and its state; `tick` advances it.

    Args:
        spec: Container specification from the pod.
        launch: How the container runs.
        folder: Folder for its process record.
        log: File for its output.
        restart_policy: Restart policy of the pod.
        rules: Rules of the twin.
        target: Function that resolves its ports.
        event: Function that receives the kubelet's events.
        has_driver: Function that returns whether the node's driver is installed.
        view: What a command in the container sees; None: nobody asks.
        wake: Function that is called when its process has ended.
    """

    spec: JsonObject
    launch: Launch
    folder: Path
    log: Path
    restart_policy: str
    rules: Rules
    target: Target
    event: EventSink
    has_driver: Callable[[], bool] = lambda: True
    view: View | None = None
    wake: Callable[[], None] = lambda: None
    restarts: int = 0
    started: bool = False
    ready: bool = False
    running_since: float | None = None
    state: JsonObject = field(default_factory=dict[str, Any])
    last_state: JsonObject = field(default_factory=dict[str, Any])
    log_began: int = field(init=False)
    """Size of the log before it: an earlier pod of this name has written to the file."""
    evicted: str = ""
    """Why its pod was evicted; empty if it was not."""
    _killed_for: str = ""
    _record: records.Record | None = None
    _start_at: float = 0.0
    _backoff: float = 0.0
    _probes: dict[str, Schedule] = field(default_factory=dict[str, Schedule])

    def __post_init__(self) -> None:
        self.state = {"waiting": {"reason": "ContainerCreating"}}
        self.log_began = self.log.stat().st_size if self.log.exists() else 0
        fast = self.rules.speed > 1 and not self.launch.is_real
        simulated = bool(self.launch.argv) or self.launch.kind is Kind.ENGINE
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            self._probes[name] = Schedule(
                self.spec.get(name) if simulated else None,
                period_cap=self.rules.seconds("agent.probe.period-cap") if fast else 1e9,
                timeout_floor=self.rules.seconds("agent.probe.timeout-floor") if fast else 0.0,
                delay_scale=self.rules.speed,
            )

    @property
    def name(self) -> str:
        """Name of the container in the pod."""
        return str(self.spec["name"])

    @property
    def is_sidecar(self) -> bool:
        """Whether it is an init container that runs beside the others."""
        return self.spec.get("restartPolicy") == "Always"

    @property
    def has_started(self) -> bool:
        """Whether it has run at least once."""
        return self.running_since is not None or self.restarts > 0 or self.finished

    @property
    def file(self) -> Path:
        """File that contains its process record."""
        return self.folder / f"{self.name}.process.json"

    @property
    def record(self) -> records.Record | None:
        """Record of its process; None if none has run."""
        return self._record

    @property
    def finished(self) -> bool:
        """Whether the container ended and will not restart."""
        return "terminated" in self.state

    def adopt(self) -> bool:
        """Adopt the process that an earlier agent started; return False if there is none."""
        record = records.read(self.file)
        if record is None:
            return False
        self.restarts = record.restarts
        self._record = record
        when_ended(record.pid, self.wake)
        self._running(record.started_epoch)
        return True

    def tick(self) -> None:
        """Start, check, probe or restart the process, as due."""
        now = time.monotonic()
        if self.finished:
            return
        if self.running_since is None:
            if now >= self._start_at:
                self._start()
        elif self._ended():
            self._exited()
        else:
            self._probe()

    def _start(self) -> None:
        if self.launch.cannot_start:
            self._not_started(_RUNTIME + self.launch.cannot_start)
            return
        if self.launch.devices and self.has_driver():
            put_devices(self.launch.devices)
        if self.launch.argv:
            if self.view is not None:
                write_container(
                    self.folder, self.name, self.log, self.launch.environment, self.view
                )
            try:
                self._record = records.start(
                    self.launch.argv, self.launch.environment, self.log, self.file, self.restarts
                )
            except OSError as error:
                self.state = {"waiting": {"reason": "RunContainerError", "message": str(error)}}
                self._back_off()
                return
            when_ended(self._record.pid, self.wake)
        self.event("Normal", "Started", f"Started container {self.name}")
        self._running(time.time())

    def _not_started(self, message: str) -> None:
        """Report a container that the runtime could not start, as containerd does."""
        now = timestamp(time.time())
        ended: JsonObject = {
            "exitCode": _START_EXIT_CODE,
            "reason": "StartError",
            "startedAt": timestamp(0),
            "finishedAt": now,
            "message": message,
        }
        self.event("Warning", "Failed", f"Error: {message}")
        if self.restart_policy == "Never":
            self.state = {"terminated": ended}
            return
        self.last_state = {"terminated": ended}
        self.state = {"waiting": {"reason": "RunContainerError", "message": message}}
        self._back_off()

    def _running(self, since: float) -> None:
        self.running_since = since
        self.state = {"running": {"startedAt": timestamp(since)}}
        for probe in self._probes.values():
            probe.reset(time.monotonic())
        self.started = self._probes["startupProbe"].probe is None
        self.ready = self.started and self._probes["readinessProbe"].probe is None

    def _ended(self) -> bool:
        return self._record is not None and not self._record.alive

    def _exited(self) -> None:
        found = None if self._record is None else self._record.exit_code()
        code = _LOST_EXIT_CODE if found is None else found if found >= 0 else 128 - found
        ended: JsonObject = {
            "exitCode": code,
            "reason": self._killed_for or ("Completed" if code == 0 else "Error"),
            "startedAt": timestamp(self.running_since or time.time()),
            "finishedAt": timestamp(time.time()),
            "message": "" if code == 0 else last_line(self.log),
        }
        self._killed_for = ""
        ran = time.time() - (self.running_since or time.time())
        self.running_since = None
        self.started = self.ready = False
        self.file.unlink(missing_ok=True)
        again = self.restart_policy == "Always" or (self.restart_policy == "OnFailure" and code)
        if not again:
            self.state = {"terminated": ended}
            return
        self.last_state = {"terminated": ended}
        floor = self.rules.seconds("agent.restart.reset-floor")
        if ran > max(floor, self.rules.scaled("agent.restart.reset")):
            self._backoff = 0.0
        self._back_off()

    def _back_off(self) -> None:
        """Delay the next start: ten seconds, doubled each time, up to five minutes."""
        self.restarts += 1
        first = self.rules.seconds("agent.restart.backoff")
        longest = self.rules.seconds("agent.restart.backoff-longest")
        wait = 0.0 if self._backoff == 0.0 else self._backoff
        self._backoff = min(longest, self._backoff * 2 or first)
        self._start_at = time.monotonic() + wait / self.rules.speed
        if wait:
            text = f"back-off {wait:.0f}s restarting failed container={self.name}"
            self.state = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
            self.event("Warning", "BackOff", f"Back-off restarting failed container {self.name}")

    def _probe(self) -> None:
        if not self.started:
            result = self._run_probe("startupProbe", "Startup")
            if result is False:
                self._kill("failed startup probe")
            elif result:
                self.started = True
                self.ready = self._probes["readinessProbe"].probe is None
            return
        result = self._run_probe("readinessProbe", "Readiness")
        if result is not None:
            self.ready = result
        if self._run_probe("livenessProbe", "Liveness") is False:
            self._kill("failed liveness probe")

    def _run_probe(self, name: str, word: str) -> bool | None:
        schedule = self._probes[name]
        before = schedule.failures
        result = schedule.run(self.target)
        if schedule.failures > before and (self.started or result is False):
            self.event("Warning", "Unhealthy", f"{word} probe failed: {schedule.last_message}")
        return result

    def _kill(self, why: str) -> None:
        self.event("Normal", "Killing", f"Container {self.name} {why}, will be restarted")
        self.ready = self.started = False
        if self._record is not None:
            records.end([self._record], grace=5.0)
        elif not self.launch.argv:
            self._running(time.time())

    def next_due(self) -> float:
        """Return the monotonic time by which `tick` must be called again.

        `wake` is called when its process ends.
        """
        if self.finished:
            return math.inf
        if self.running_since is None:
            return max(self._start_at, time.monotonic())
        names = ("readinessProbe", "livenessProbe") if self.started else ("startupProbe",)
        probes = [self._probes[name] for name in names]
        return min((probe.due for probe in probes if probe.probe is not None), default=math.inf)

    def end_beside(self, grace: float) -> None:
        """End a sidecar whose pod has nothing else to do; it will not restart.

        `grace` is its time in seconds between SIGTERM and SIGKILL.
        """
        if self._record is not None:
            records.end([self._record], grace)
        self.end()

    def kill_for_memory(self) -> None:
        """Kill all its processes at once, as the kernel does for a memory cgroup of a container."""
        if self._record is not None:
            self._killed_for = "OOMKilled"
            records.signal_all([self._record], signal.SIGKILL)

    def evict(self, why: str, grace: float) -> None:
        """End with the pod, which the kubelet evicts."""
        self.evicted = why
        if not self.finished:
            self.end_beside(grace)

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self._record is not None:
            records.signal_all([self._record], signal.SIGTERM)

    def end(self) -> None:
        """Record that the pod ended, and with it the container; it will not restart."""
        if self.finished:
            return
        self.restart_policy = "Never"
        if self.running_since is not None:
            self._exited()
            return
        self.state = {
            "terminated": {
                "exitCode": _LOST_EXIT_CODE,
                "reason": "ContainerStatusUnknown",
                "message": "The container was never started",
            }
        }

    def status(self) -> JsonObject:
        """Return the entry of `status.containerStatuses`."""
        out: JsonObject = {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": self.spec["image"],
            "ready": self.ready and self.running_since is not None,
            "started": self.started,
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self.last_state,
        }
        if self._record is not None:
            out["containerID"] = f"twin://{self._record.pid}"
        return out


def tick_all(containers: list[Container], grace: float) -> None:
    """Start, check, probe or restart the containers of a pod, as due.

    As with the kubelet, the others start once all sidecars have started, and sidecars end after the
    others.

    Args:
        containers: Containers of the pod.
        grace: Time in seconds between SIGTERM and SIGKILL of a sidecar.
    """
    beside = [container for container in containers if container.is_sidecar]
    main = [container for container in containers if not container.is_sidecar]
    for container in beside:
        container.tick()
    may_start = all(container.started for container in beside)
    for container in main:
        if may_start or container.running_since is not None or container.finished:
            container.tick()
    if main and all(container.finished for container in main):
        for container in beside:
            if not container.finished:
                container.end_beside(grace)


def last_line(log: Path) -> str:
    """Return the last line of a log, shortened, as the termination message."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 4096))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return lines[-1][:1000] if lines else ""
