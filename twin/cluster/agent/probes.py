"""The kubelet's probes: HTTP, TCP, gRPC and exec, with the settings of the container."""

import http.client
import importlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twin.wire.kube import JsonObject

_grpc: Any = importlib.import_module("grpc")
_SERVING = 1
_PASSING_TIMES = 2.0
"""How much longer the cap on a period is while a probe passes. Rule: agent.probe.period-cap."""
_channels: dict[str, Any] = {}
"""Working connections, kept for the next probe, because connecting takes longer than a call."""
_channels_lock = threading.Lock()
Target = Callable[[int | str], tuple[str, int]]
"""Resolves a container port, by number or name, to (address, port)."""


def check(probe: JsonObject, target: Target, timeout: float) -> str | None:
    """Run a probe once; return None if it passes, otherwise the kubelet's message."""
    if "httpGet" in probe:
        return _http(probe["httpGet"], target, timeout)
    if "grpc" in probe:
        return _grpc_health(probe["grpc"], target, timeout)
    if "tcpSocket" in probe:
        return _tcp(probe["tcpSocket"], target, timeout)
    return None  # exec: there is no container to run a command in


def _http(spec: JsonObject, target: Target, timeout: float) -> str | None:
    address, port = target(spec["port"])
    url = f"http://{address}:{port}{spec.get('path', '/')}"
    connection = http.client.HTTPConnection(address, port, timeout=timeout)
    try:
        headers = {entry["name"]: entry["value"] for entry in spec.get("httpHeaders", [])}
        connection.request("GET", spec.get("path", "/"), headers=headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f'Get "{url}": {error}'
    finally:
        connection.close()
    return None if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"


def _tcp(spec: JsonObject, target: Target, timeout: float) -> str | None:
    address, port = target(spec["port"])
    try:
        socket.create_connection((address, port), timeout=timeout).close()
    except OSError as error:
        return f"dial tcp {address}:{port}: {error}"
    return None


def _grpc_health(spec: JsonObject, target: Target, timeout: float) -> str | None:
    """Call grpc.health.v1; its two short messages are decoded without a library."""
    address, port = target(spec["port"])
    service = str(spec.get("service") or "").encode()
    request = b"\x0a" + bytes([len(service)]) + service if service else b""
    place = f"{address}:{port}"
    with _channels_lock:
        channel = _channels.pop(place, None) or _grpc.insecure_channel(place)
    call = channel.unary_unary("/grpc.health.v1.Health/Check")
    try:
        answer: bytes = call(request, timeout=timeout)
    except _grpc.RpcError as error:
        channel.close()  # a failed channel would wait before it reconnects
        return f"timeout or error: health rpc failed: {error.code().name}"
    with _channels_lock:
        _channels[place] = channel
    serving = answer[:2] == bytes([0x08, _SERVING])
    return None if serving else "service unhealthy (responded with NOT_SERVING)"


@dataclass
class Schedule:
    """Schedule and result of a probe.

    Args:
        probe: Probe of the container; None: never due, always passing.
        period_cap: Longest time between two runs, in seconds of real time, because the twin's clock
            may run a hundred times faster; twice as long while the probe passes.
        timeout_floor: Shortest timeout of a probe, in seconds, because the machine is shared.
        delay_scale: Divisor for `initialDelaySeconds`.
    """

    probe: JsonObject | None
    period_cap: float
    timeout_floor: float
    delay_scale: float
    due: float = 0.0
    successes: int = 0
    failures: int = 0
    last_message: str = ""
    passing: bool | None = field(default=None)

    def reset(self, now: float) -> None:
        """Reset the schedule, as after a start of the container."""
        delay = float((self.probe or {}).get("initialDelaySeconds", 0)) / self.delay_scale
        self.due = now + delay
        self.successes = self.failures = 0
        self.passing = None

    @property
    def period(self) -> float:
        """Seconds between two runs."""
        passes = self.passing and not self.failures
        cap = self.period_cap * (_PASSING_TIMES if passes else 1.0)
        return min(float((self.probe or {}).get("periodSeconds", 10)), cap)

    def run(self, target: Target) -> bool | None:
        """Run the probe if it is due; return True or False if it reaches a threshold."""
        if self.probe is None or time.monotonic() < self.due:
            return None
        timeout = max(float(self.probe.get("timeoutSeconds", 1)), self.timeout_floor)
        result = self._counted(self.probe, check(self.probe, target, timeout))
        self.due = time.monotonic() + self.period
        return result

    def _counted(self, probe: JsonObject, message: str | None) -> bool | None:
        if message is None:
            self.successes, self.failures = self.successes + 1, 0
            if self.successes >= int(probe.get("successThreshold", 1)):
                self.passing = True
                return True
            return None
        self.last_message = message
        self.successes, self.failures = 0, self.failures + 1
        if self.failures >= int(probe.get("failureThreshold", 3)):
            self.passing = False
            return False
        return None
