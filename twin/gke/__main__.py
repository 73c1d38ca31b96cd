"""The process that plays GKE for one cluster: `python -m twin.gke CLUSTER_DIR`."""

import logging
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Protocol

from twin.controlplane import guard_address
from twin.gke import bootstrap
from twin.gke.agent import NodeAgent
from twin.gke.autoscaler import Autoscaler
from twin.gke.context import ClusterContext
from twin.gke.custom_metrics import CustomMetrics
from twin.gke.gateway import GatewayController
from twin.gke.metrics import ExternalMetrics
from twin.gke.pools import PoolController
from twin.paths import TwinPaths


class Controller(Protocol):
    """A part that runs until it is told to stop."""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""


def _controllers(context: ClusterContext) -> list[Controller]:
    parts: list[Controller] = [
        PoolController(context),
        Autoscaler(context),
        ExternalMetrics(context),
        CustomMetrics(context),
        NodeAgent(context),
        GatewayController(context),
    ]
    return parts


def main(folder: Path) -> None:
    """Run the controllers of the cluster in `folder` until SIGTERM."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    signal.signal(signal.SIGINT, lambda _number, _frame: stop.set())
    with socket.socket() as guard:
        # held for as long as this process lives: no other cluster takes these pod addresses
        guard.bind(guard_address(int((folder / "block").read_text())))
        context = ClusterContext(TwinPaths.default(), folder)
        bootstrap.install(context)
        threads = [
            threading.Thread(target=part.run, args=(stop,), name=type(part).__name__)
            for part in _controllers(context)
        ]
        for thread in threads:
            thread.start()
        stop.wait()
        for thread in threads:
            thread.join(timeout=5)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
