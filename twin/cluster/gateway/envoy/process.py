"""The Envoy process of one gateway: start (detached), adoption after a crash, queries, stop."""

import http.client
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from twin.cluster.gateway.envoy.messages import EnvoyJson
from twin.cluster.gateway.translation.objects import items
from twin.host.processes import end

_START_SECONDS = 30.0
_ADMIN_SECONDS = 2.0
_ADMIN_PATHS: Final = ("/ready", "/stats", "/clusters", "/config_dump")
"""What this module and Prometheus read. Without a list, any program of this machine and any web
page could stop Envoy, drain its listeners or change its settings."""
NOT_YET: Final = "not active yet"
"""The end of a problem that time may solve."""
_CONCURRENCY = 1  # worker threads; each balances for itself, one sees every request
# Envoy requests SIGTERM for the death of its parent, so the parent must exit before Envoy starts:
# `setsid --fork` returns immediately, and the shell records its own process ID before it becomes
# Envoy.
_LAUNCH = 'echo $$ > "$0"; exec "$@"'


class EnvoyError(Exception):
    """Envoy did not start, or does not answer."""


class EnvoyProcess:
    """One Envoy with its own folder."""

    def __init__(self, folder: Path, log: Path, binary: Path | None = None) -> None:
        self.folder = folder
        self._log = log
        self._binary = binary
        self._pid_file = folder / "envoy.pid"
        self._admin_file = folder / "admin.address"
        self._bootstrap = folder / "bootstrap.json"

    def pid(self) -> int | None:
        """Return the process ID of this gateway's Envoy if it runs."""
        try:
            pid = int(self._pid_file.read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return None
        return pid if os.fsencode(self._bootstrap) in command.split(b"\0") else None

    def start(self) -> None:
        """Start Envoy if it does not run, and wait until it answers.

        Raises:
            EnvoyError: Envoy ended, or was not ready in time.
        """
        if self.pid() is not None:
            return
        if self._binary is None:
            raise EnvoyError("no Envoy binary given")
        self._write_bootstrap()
        for stale in (self._pid_file, self._admin_file):
            stale.unlink(missing_ok=True)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        command = [
            *("setsid", "--fork", "sh", "-c", _LAUNCH, str(self._pid_file), str(self._binary)),
            *("-c", str(self._bootstrap), "--admin-address-path", str(self._admin_file)),
            *("--file-flush-interval-msec", "1000"),
            *(
                "--concurrency",
                str(_CONCURRENCY),
                "--disable-hot-restart",
                "--log-level",
                "warning",
            ),
        ]
        with self._log.open("ab") as log:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
        self._wait_ready()

    def _wait_ready(self) -> None:
        limit = time.monotonic() + _START_SECONDS
        seen = False
        while time.monotonic() < limit:
            running = self.pid() is not None
            if seen and not running:
                break
            seen = seen or running
            try:
                if self.ask("/ready").strip() == "LIVE":
                    return
            except EnvoyError:
                pass
            time.sleep(0.02)
        raise EnvoyError(f"Envoy did not become ready: {_last_line(self._log)} (log: {self._log})")

    def _write_bootstrap(self) -> None:
        def source(name: str) -> EnvoyJson:
            path = str(self.folder / f"{name}.json")
            return {"resource_api_version": "V3", "path_config_source": {"path": path}}

        bootstrap: EnvoyJson = {
            "node": {"id": self.folder.name, "cluster": self.folder.name},
            "admin": {
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
                "allow_paths": [{"prefix": path} for path in _ADMIN_PATHS],
            },
            "dynamic_resources": {"lds_config": source("lds"), "cds_config": source("cds")},
        }
        self._bootstrap.write_text(json.dumps(bootstrap, indent=1))

    def ask(self, path: str, method: str = "GET") -> str:
        """Return the response of Envoy's admin interface.

        Raises:
            EnvoyError: Envoy does not answer.
        """
        try:
            host, port = self._admin_file.read_text().strip().rsplit(":", 1)
            connection = http.client.HTTPConnection(host, int(port), timeout=_ADMIN_SECONDS)
            try:
                connection.request(method, path)
                return connection.getresponse().read().decode()
            finally:
                connection.close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise EnvoyError(f"Envoy's admin interface: {error}") from error

    def active_clusters(self) -> set[str]:
        """Return the names of active clusters."""
        answer: dict[str, Any] = json.loads(self.ask("/clusters?format=json"))
        return {item["name"] for item in items(answer, "cluster_statuses")}

    def healthy_endpoints(self) -> set[tuple[str, str, int]]:
        """Return (cluster, address, port) of healthy endpoints."""
        answer: dict[str, Any] = json.loads(self.ask("/clusters?format=json"))
        return {
            (cluster["name"], at["address"], at["port_value"])
            for cluster in items(answer, "cluster_statuses")
            for host in items(cluster, "host_statuses")
            if not host.get("health_status", {}).get("failed_active_health_check", False)
            for at in [host["address"]["socket_address"]]
        }

    def listeners(self) -> list[EnvoyJson]:
        """Return the listeners, each with its states (`DynamicListener` of Envoy's admin API)."""
        return items(json.loads(self.ask("/config_dump?resource=dynamic_listeners")), "configs")

    def listener_updates(self) -> int:
        """Return the number of updates of listeners that Envoy has accepted or rejected."""
        answer = self.ask("/stats?filter=^listener_manager.lds.update_(success|rejected)$")
        return sum(int(line.rpartition(":")[2]) for line in answer.splitlines() if line)

    def listener_problem(self, wanted: set[str], updates: int = 0) -> str | None:
        """Return why a listener is not served; None if all are served.

        Args:
            wanted: Names of listeners.
            updates: Number of updates after which Envoy has read their present form.
        """
        if self.listener_updates() < updates:
            return f"listeners: {NOT_YET}"
        # an update that Envoy rejects also adds an entry without a name
        found = {str(each.get("name", "")): each for each in self.listeners()}
        for name in sorted(wanted):
            state = found.get(name, {})
            if "error_state" in state:
                return f"{name}: {state['error_state'].get('details', 'refused by Envoy')}"
            if "active_state" not in state or "warming_state" in state:
                return f"{name}: {NOT_YET}"
        return None

    def await_listeners(self, wanted: set[str], updates: int, seconds: float) -> str | None:
        """Wait until Envoy serves listeners; return why it does not.

        Args:
            wanted: Names of listeners.
            updates: Number of updates after which Envoy has read their present form.
            seconds: Longest wait.
        """
        limit = time.monotonic() + seconds
        while True:
            problem = self.listener_problem(wanted, updates)
            is_final = problem is None or not problem.endswith(NOT_YET)
            if is_final or time.monotonic() > limit:
                return problem
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop Envoy if it runs."""
        pid = self.pid()
        if pid is not None:
            end([pid])
        self._pid_file.unlink(missing_ok=True)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-1:] if log.exists() else []
    return " ".join(lines)[:300]
