"""A platform with three replicas under load, and the means to harm it."""

import json
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml

from gke_inference.serving.live_adapters import LOADER
from infra.plan import resolve
from infra.reading.load import read
from scripts.operate.sample_weights import SampleWeights
from scripts.shared.clusters import of_twin
from scripts.shared.engine import Engine
from scripts.shared.model_client import stream_chat
from scripts.shared.placements import placements, settled
from scripts.shared.scratch_project import backend, scratch_project
from simulator.traffic import Options, Outcome, Report, Trace, TraceEntry, mixed_lengths, run
from simulator.traffic.client import LOCAL_CLIENTS
from twin import daemon
from twin.cluster import lifecycle as clusters
from twin.cluster.agent import records
from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths
from twin.wire.kube import Kube
from twin.world.capacity import StockLine, World

ONLY_LONG = pytest.mark.parametrize(
    "length", [pytest.param(1, id="full", marks=pytest.mark.soak)], indirect=True
)
"""For a fault whose short form is a test of the twin's own gateway or rules: see its comment."""
STACK = "local"
LOCAL = REPOSITORY / "stacks" / f"Pulumi.{STACK}.yaml"
MODEL = "llama-3.1-8b"
NAMESPACE = "models"
SPEED = 20
"""How much faster than Google's the clock is: the notice of a spot machine lasts two seconds."""
TPU = StockLine(
    zone="*", accelerator="tpu-v6e", provisioning="reservation", reservation="*", chips=8
)
NO_OTHER_TPU = StockLine(zone="*", accelerator="tpu-v6e", chips=0)
NO_L4 = StockLine(zone="*", accelerator="nvidia-l4", provisioning="on-demand", chips=0)
_ONE_CHECKPOINT = {"PULUMI_EXPERIMENTAL": "true", "PULUMI_SKIP_CHECKPOINTS": "true"}
"""The state is written once, at the end, instead of twice for each resource: no run is killed."""
_SILENT = {"unfinished", "timeout", "malformed"}


def silent_losses(report: Report) -> list[Any]:
    """Requests that got neither a whole answer nor an error: what must never happen."""
    return [record for record in report.lost if record.error in _SILENT]


def counts(report: Report) -> dict[str, int]:
    """Requests by what became of them; `cut` is an answer that a broken connection ended."""
    silent = len(silent_losses(report))
    return {
        "sent": len(report.records),
        "answered": len(report.of(Outcome.ANSWERED)),
        "refused": len(report.of(Outcome.REFUSED)),
        "cut": len(report.lost) - silent,
        "lost": silent,
    }


_KILLED = "connection_termination"
_STREAM_LOST = {
    ("200", _KILLED): "answer under way",
    ("500", _KILLED): "in the picker",
    ("500", "remote_connection_failure"): "no connection",
}
"""What ended a request whose picker failed, by its status and the reason in Envoy's log."""


def lost_with_the_picker(cluster: Path) -> Counter[str]:
    """Count the requests whose stream to the picker failed, by what the request was doing.

    Args:
        cluster: Folder of the cluster, whose gateways log every request.

    Raises:
        KeyError: A stream failed for another reason.
    """
    found: Counter[str] = Counter()
    for file in (cluster / "logs").glob("gateway-*.access.jsonl"):
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            details = entry["details"] or ""
            if details.startswith("ext_proc_error"):
                reasons = [name for _, name in _STREAM_LOST if name in details]
                found[_STREAM_LOST[str(entry["code"]), (reasons or [details])[0]]] += 1
    return found


class _UntilStopped(tuple[TraceEntry, ...]):
    """The requests of a trace; none is sent once `stop` is set."""

    stop: threading.Event

    def __iter__(self) -> Iterator[TraceEntry]:
        return takewhile(lambda _: not self.stop.is_set(), super().__iter__())


class Load:
    """Requests at a steady rate, sent from a thread of its own."""

    def __init__(
        self,
        url: str,
        seconds: float,
        rate: float = 12.0,
        model: str = MODEL,
        output_tokens: tuple[int, int] = (8, 16),  # on an L4 a second: shorter than the notice
    ) -> None:
        stream = mixed_lengths(
            rate=rate,
            seconds=seconds,
            seed=1,
            model=model,
            prompts=[(1.0, 40, 400)],
            outputs=[(1.0, *output_tokens)],
        )
        asks = _UntilStopped(stream)
        asks.stop = self._stop = threading.Event()
        self._trace = Trace("steady", asks)
        self._url = url
        self._found: list[Report] = []
        self._thread = threading.Thread(target=self._run)
        self._begun = 0.0

    def _run(self) -> None:
        self._found.append(run(self._trace, self._url, Options(sources=LOCAL_CLIENTS)))

    def __enter__(self) -> "Load":
        self._begun = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(timeout=300)

    def until(self, second: float) -> None:
        """Wait until the load has run so long."""
        time.sleep(max(0.0, self._begun + second - time.monotonic()))

    def end_after(self, seconds: float) -> None:
        """Send requests for so long, or to the end of the load, and none after that."""
        self._thread.join(timeout=seconds)
        self._stop.set()

    @property
    def report(self) -> Report:
        """What became of the requests, after the end."""
        return self._found[0]


def together(folder: Path, file: Path, other: Path, *keys: str) -> Path:
    """Write a stack with what another one has under some keys as well, to share a platform."""
    whole = yaml.safe_load(file.read_text())
    parts = yaml.safe_load(other.read_text())["config"]["gke-inference:platform"]
    platform = whole["config"]["gke-inference:platform"]
    for key in keys:
        platform[key] = {**platform.get(key, {}), **parts[key]}
    made = folder / file.name
    made.write_text(yaml.safe_dump(whole, default_flow_style=None, sort_keys=False, width=1000))
    return made


class Platform:
    """A platform on a twin of its own, out of a project of its own."""

    def __init__(
        self,
        folder: Path,
        file: Path = LOCAL,
        replicas: str | None = "{min: 3, max: 3, standby: 0}",
        speed: float = SPEED,
    ) -> None:
        self.paths = TwinPaths(folder / "twin")
        self.engine = Engine(self.paths, speed)
        text = file.read_text()
        if replicas is not None:
            text, number = re.subn(r"replicas: \{.*\}", f"replicas: {replicas}", text)
            assert number
        self.stack = file.name.removeprefix("Pulumi.").removesuffix(".yaml")
        self.model = next(iter(yaml.safe_load(text)["config"]["gke-inference:platform"]["models"]))
        self.project = scratch_project(folder, self.stack, text)
        self._state = {**backend(folder), **_ONE_CHECKPOINT}
        self.url = ""
        self._only: str | None = None

    def of(self, model: str) -> "Platform":
        """Return this platform, asked about one of its models."""
        made = copy(self)
        made.model, made._only = model, model.replace(".", "-")
        return made

    def bring_up(
        self,
        *stock: StockLine,
        accounts: tuple[str, ...] = (),
        snapshots: tuple[str, ...] = (),
    ) -> None:
        """Deploy the stack where there is this stock, and these accounts and snapshots of others.

        `close` ends what was started.
        """
        World(stock=stock, service_accounts=accounts, snapshots=snapshots).save(
            self.paths.capacity_file
        )
        self.pulumi("stack", "init", self.stack, "--no-select")
        self.up()
        outputs = self.pulumi("stack", "output", "endpoint", "-s", self.stack)
        self.url = outputs.strip()
        self.kube = Kube(self.cluster / "kubeconfig")

    def up(self) -> None:
        """Deploy what the stack says now, and push weights to the buckets that have none."""
        weights = SampleWeights(resolve(read(self.stack, self.project / "stacks")), self.paths)
        weights.start()
        self.pulumi("up", "--yes", "--skip-preview", "-s", self.stack)
        weights.finish(60)

    @property
    def cluster(self) -> Path:
        """Folder of the one cluster."""
        return clusters.folders(self.paths)[0]

    def pulumi(self, *arguments: str) -> str:
        """Run pulumi in the project and return what it printed."""
        answer = self.engine.run(
            *arguments,
            "--non-interactive",
            capture=True,
            environment=self._state,
            project=self.project,
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout

    def world(self, *stock: StockLine) -> None:
        """Say what there is to be had from now on."""
        World(stock=stock).save(self.paths.capacity_file)

    def ready(self) -> list[str]:
        """Names of the replicas that are ready."""
        found = [p for p in placements(of_twin(self.paths)) if p.state == "ready"]
        return [p.pod for p in found if self._only in (None, p.model)]

    def settle(self, replicas: int = 3) -> None:
        """Wait until so many replicas are ready, nothing is on its way, and one has answered."""
        wait_for(lambda: len(self.ready()) >= replicas, 180, self.states)
        assert settled(self.paths, 120, quiet=1.0), self.states()
        wait_for(self.answers, 60, self.states)

    def states(self) -> str:
        """Say how the replicas are."""
        return ", ".join(f"{p.pod}: {p.state} {p.rung}" for p in placements(of_twin(self.paths)))

    def answers(self) -> bool:
        """Return whether a request through the gateway is answered."""
        try:
            return bool(stream_chat(self.url, self.model, "Are you there?").text)
        except Exception:  # noqa: BLE001 - every reason not to answer is a reason to wait
            return False

    def process_of(self, pod: str) -> int:
        """Pid of the server in a pod: of a replica the engine, not the launcher in front of it."""
        uid = self.kube.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}")["metadata"]["uid"]
        found = [
            records.read(file)
            for file in (self.cluster / "pods" / NAMESPACE / uid).glob("*.process.json")
            if file.name != f"{LOADER}.process.json"
        ]
        [record] = [one for one in found if one is not None and one.alive]
        return behind_launcher(record.pid)

    def picker(self) -> str:
        """Name of the pod of the model's picker."""
        return str(self._picker()["metadata"]["name"])

    def picker_restarts(self) -> int:
        """How often the picker was started again and is ready; -1 while it is not ready."""
        [status] = self._picker()["status"]["containerStatuses"]
        return int(status["restartCount"]) if status["ready"] else -1

    def _picker(self) -> dict[str, Any]:
        selector = "app.kubernetes.io/component=endpoint-picker"
        pods = self.kube.list(f"/api/v1/namespaces/{NAMESPACE}/pods", label_selector=selector)
        return next(pod for pod in pods if not _is_going(pod))

    def close(self) -> None:
        """Take everything down."""
        daemon.shut_down(self.paths)
        assert processes.running(self.paths) == {}


def _is_going(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def wait_for(holds: Callable[[], bool], seconds: float, found: Callable[[], str]) -> None:
    """Wait until something holds; where it does not, say what is found instead."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"not after {seconds:g} s: {found()}"
        time.sleep(0.2)


def behind_launcher(pid: int) -> int:
    """Pid of what a launcher started; of any other process its own."""
    process = Path(f"/proc/{pid}")
    if b"engine\0--spec=" not in (process / "cmdline").read_bytes():
        return pid
    lists = [file.read_text().split() for file in process.glob("task/*/children")]
    [child] = [int(number) for numbers in lists for number in numbers]
    return child


class Slowed:
    """A simulated engine whose steps take ten times as long, as on a sick accelerator."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def __enter__(self) -> "Slowed":
        os.kill(self._pid, signal.SIGUSR1)
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGUSR2)
