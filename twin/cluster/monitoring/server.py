"""The Prometheus process of one cluster: detached start, rediscovery, reload."""

import os
import signal
import time
from pathlib import Path

from twin.cluster.base.context import ClusterContext
from twin.cluster.monitoring import addresses, promql
from twin.host import processes

_RETENTION = "1d"
_START_SECONDS = 60.0
_RELOAD_SECONDS = 20.0
_LOOK_SECONDS = 0.05
_REJECTED = "Error reloading config"
"""Words of Prometheus' log when it keeps its configuration (cmd/prometheus/main.go)."""


def process_name(folder: Path) -> str:
    """Return the name under which a cluster's Prometheus is recorded."""
    return f"{folder.name}.prometheus"


def address_of(folder: Path) -> str | None:
    """Return `127.0.0.1:PORT` of a cluster's Prometheus; None if it never ran."""
    return next(iter(addresses.read(folder / "prometheus" / "address")), None)


class PrometheusServer:
    """One cluster's Prometheus and its folder `CLUSTER_DIR/prometheus`."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self.folder = ctx.dir / "prometheus"
        self.config = self.folder / "prometheus.yml"
        self.tokens = self.folder / "tokens"
        for name in ("consoles", "rules", "targets"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        """Its host and port; unchanged by a restart."""
        return addresses.kept(self.folder / "address")[0]

    def ensure(self) -> bool:
        """Start it if it does not run, and wait until it answers; return whether it was started.

        Raises:
            processes.ProcessError: Prometheus did not start.
            twin.toolchain.ToolError: Prometheus is not built.
        """
        paths, name = self._ctx.paths, process_name(self._ctx.dir)
        if processes.pid_of(paths, name) is not None:
            return False
        if addresses.is_taken(self.address):  # by a stranger, while this cluster was down
            (self.folder / "address").unlink()
        arguments = [
            str(self._ctx.tool("prometheus")),
            f"--config.file={self.config}",
            f"--storage.tsdb.path={self.folder}/data",
            f"--storage.tsdb.retention.time={_RETENTION}",
            f"--web.listen-address={self.address}",
            # its default lets every web page read the series
            "--web.cors.origin=https://none.invalid",
            f"--web.console.templates={self.folder}/consoles",
            f"--web.console.libraries={self.folder}/consoles",
            "--log.level=warn",
        ]
        process = processes.start(paths, name, arguments)
        processes.wait_ready(
            paths, name, process, lambda: promql.is_ready(self.address), _START_SECONDS
        )
        return True

    def reload(self) -> None:
        """Reload its configuration.

        A signal does it, because every user and web page could send what its HTTP API for this
        takes, which also ends the process.

        Raises:
            promql.QueryError: Prometheus rejected the configuration, or does not answer.
        """
        paths, name = self._ctx.paths, process_name(self._ctx.dir)
        before = promql.last_loaded(self.address)
        log = processes.log_of(paths, name)
        read = log.stat().st_size
        pid = processes.pid_of(paths, name)
        if pid is None:
            raise promql.QueryError(f"Prometheus at {self.address} has ended")
        os.kill(pid, signal.SIGHUP)
        limit = time.monotonic() + _RELOAD_SECONDS
        while promql.last_loaded(self.address) <= before:
            with log.open("rb") as written:
                written.seek(read)
                lines = written.read().decode(errors="replace").splitlines()
            if problem := next((line for line in lines if _REJECTED in line), None):
                raise promql.QueryError(problem.partition(" err=")[2].strip('"'))
            if time.monotonic() > limit:
                raise promql.QueryError(f"not loaded within {_RELOAD_SECONDS:g} s (log: {log})")
            time.sleep(_LOOK_SECONDS)
