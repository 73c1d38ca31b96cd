"""The number of open requests, from the metrics of the engine and of its group.

With expert parallelism and hybrid load balancing, every pod of a group has an API, and all engines
compute each layer together. The first pod that ends aborts the requests of all others, and a
LeaderWorkerSet terminates workers only after their leader has ended. So the pods of a group drain
together: each announces that it is draining as soon as another one does, and none ends before all
are idle (sigs.k8s.io/lws v0.9.0 pkg/controllers/pod_controller.go).
"""

import http.client
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence

from . import health
from .log import say

GROUP_SETTLE_SECONDS = 15
"""Time until a pod that is not being terminated gets no new requests because another pod of its
group drains: it looks every two seconds, and its readiness probe fails twice, 5 s apart."""

_LOOK_SECONDS = 2.0
_GONE_AFTER = 3
_SERIES = re.compile(r"(?P<name>[^\s{]+)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'([A-Za-z_]\w*)="?([^",}]*)"?')


def open_requests(url: str, metrics: Sequence[str]) -> "float | None":
    """Return the sum of gauges of a metrics page; None if it cannot be read or has none of them.

    Args:
        url: URL of the page.
        metrics: Names of gauges, with labels in braces to select series.
    """
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - this pod
            page = answer.read().decode(errors="replace")
    except (OSError, ValueError, http.client.HTTPException):
        return None
    return total(page, metrics)


def total(page: str, metrics: Sequence[str]) -> "float | None":
    """Return the sum of gauges of a page in Prometheus text format; None if it has none of them."""
    wanted: list[tuple[str, dict[str, str]]] = []
    for metric in metrics:
        name, _, labels = metric.partition("{")
        wanted.append((name, dict(_LABEL.findall(labels))))
    values: list[float] = []
    for line in page.splitlines():
        found = None if line.startswith("#") else _SERIES.match(line)
        if found is None:
            continue
        labels = dict(_LABEL.findall(found["labels"] or ""))
        if any(name == found["name"] and asked.items() <= labels.items() for name, asked in wanted):
            values.append(float(found["value"]))
    return sum(values) if values else None


class Group:
    """The other pods of a server's group that have an API; none for a server on its own.

    Args:
        hosts: Addresses of the pods.
        page: Port and path of each engine's metrics, such as `:8000/metrics`.
        metrics: Gauges whose sum is the number of open requests.
        health_port: Port of each launcher.
    """

    def __init__(
        self, hosts: Sequence[str], page: str, metrics: Sequence[str], health_port: int
    ) -> None:
        self._hosts = tuple(hosts)
        self._page = page
        self._metrics = tuple(metrics)
        self._port = health_port
        self._missed = dict.fromkeys(self._hosts, 0)
        self.settle_seconds = GROUP_SETTLE_SECONDS if self._hosts else 0

    def open_requests(self) -> "float | None":
        """Return the open requests of the group; None if the number of a pod is unknown."""
        found = [self._open_at(host) for host in self._hosts]
        known = [count for count in found if count is not None]
        return sum(known) if len(known) == len(found) else None

    def _open_at(self, host: str) -> "float | None":
        count = open_requests(f"http://{host}{self._page}", self._metrics)
        if count is not None:
            self._missed[host] = 0
            return count
        said = health.peer(host, self._port)
        if said is None:
            self._missed[host] += 1
            return 0 if self._missed[host] >= _GONE_AFTER else None
        serves = said.get("stage") in ("serving", "draining") and not said.get("drained")
        return None if serves else 0

    def follow(self, state: health.State, stop: threading.Event) -> None:
        """Announce draining as soon as another pod drains, so that no new requests arrive."""
        while self._hosts and not stop.wait(_LOOK_SECONDS):
            stages = (health.peer_stage(host, self._port) for host in self._hosts)
            if "draining" in stages:
                state.enter("draining", "another pod of the group is ending: no new requests")
                return


def wait_idle(
    left: "Callable[[], float | None]",
    is_over: "Callable[[], bool]",
    pause: "Callable[[float], None]",
    settle: float,
    limit: float,
) -> None:
    """Wait until no request is open, after load balancers have stopped, up to a limit.

    Args:
        left: Returns the number of open requests, or None if it is unknown.
        is_over: Returns whether there is nothing to wait for any more.
        pause: Waits up to as many seconds.
        settle: Minimum time, in seconds.
        limit: Maximum time, in seconds.
    """
    began = time.monotonic()
    while not is_over():
        count, spent = left(), time.monotonic() - began
        if (count == 0 and spent >= settle) or spent >= limit:
            severity = "INFO" if count == 0 else "WARNING"
            say(severity, f"drained, {'nothing' if count == 0 else count} is open", open=count)
            return
        pause(max(0.0, limit - spent))
