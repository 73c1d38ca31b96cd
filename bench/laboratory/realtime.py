"""The laboratory's gateway in front of replicas in real time, for external load generators."""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.laboratory.policies import Policy
from bench.laboratory.rig import Rig, RigError
from simulator.replays.replica_spec import ENGINE_PORT
from simulator.replays.workloads import MODEL, Workload
from twin.host.paths import REPOSITORY
from twin.host.ports import free_port

LOOK = "50ms"
"""Interval at which the picker reads the replicas' metrics: its own default."""
_INTERVAL = 50
"""Response tokens that are sent together after the first, to reduce the number of events; the first
token is not delayed."""
_READY_SECONDS = 60.0


class RealTime:
    """Replicas that run behind a gateway.

    Args:
        url: URL of the gateway.
        control: port of the fleet's control page.
    """

    def __init__(self, url: str, control: int) -> None:
        self.url = url
        self._control = control

    def status(self) -> dict[str, Any]:
        """Return the status of the fleet; see `Fleet.status`.

        Raises:
            OSError: the fleet does not answer.
        """
        return _status(self._control)


@contextmanager
def behind_gateway(folder: Path, workload: Workload, policy: Policy) -> Generator[RealTime]:
    """Start replicas, picker and Envoy, and stop them at the end.

    Raises:
        RigError: a part did not start.
    """
    names = [f"replica-{number}" for number in range(len(workload.replicas))]
    with Rig(folder, page_port=ENGINE_PORT, look=LOOK) as rig:
        control = free_port()
        file = folder / "fleet.json"
        file.write_text(json.dumps(fleet_config(workload, names, rig.address, control)))
        with (folder / "fleet.log").open("w") as log:
            fleet = subprocess.Popen(
                [sys.executable, "-m", "simulator.server.fleet", str(file)],
                cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            _await(fleet, control, folder / "fleet.log")
            rig.replicas(names)
            yield RealTime(rig.gateway(policy, len(names)), control)
        finally:
            rig.end_run()
            fleet.terminate()
            fleet.wait()


def fleet_config(workload: Workload, names: list[str], address: Any, control: int) -> Any:
    """Return the fleet's configuration: the workload's replicas in real time."""
    common = (f"--served-model-name={MODEL}", f"--stream-interval={_INTERVAL}")
    replicas = [
        {
            "name": name,
            "address": address(number),
            "port": ENGINE_PORT,
            "accelerator": spec.accelerator,
            "chips": spec.chips,
            "slowdown": spec.slowdown,
            "flags": [spec.model, *spec.flags, *common],
        }
        for number, (name, spec) in enumerate(zip(names, workload.replicas, strict=True))
    ]
    return {
        "speed": 1,
        "control": {"address": "127.0.0.1", "port": control},
        "replicas": replicas,
    }


def _status(control: int) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", control, timeout=10)
    try:
        connection.request("GET", "/replicas")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def _await(fleet: "subprocess.Popen[bytes]", control: int, log: Path) -> None:
    limit = time.monotonic() + _READY_SECONDS
    while True:
        if fleet.poll() is not None:
            raise RigError(f"the replicas ended: {log.read_text()[-1000:]}")
        try:
            _status(control)
        except OSError as error:
            if time.monotonic() > limit:
                raise RigError(f"the replicas do not come up; log: {log}") from error
            time.sleep(0.1)
        else:
            return
