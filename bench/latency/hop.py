"""The latency of a gateway: requests to one replica, directly and through the gateway, in turn.

Both paths keep one connection open. The gateway's access log shows which replica answered, and only
pairs of requests to the same replica are compared.
"""

import http.client
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.observe.access_log import entries, trace_of
from scripts.terminal.console import CommandError


@dataclass(frozen=True)
class Served:
    """What the access log says about a request."""

    endpoint: str
    """`ADDRESS:PORT` of the replica that answered."""
    waits: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds that the gateway waited for each processor."""


Find = Callable[[Collection[str]], Mapping[str, Served]]
"""Takes trace IDs and returns what the log says about each."""
_LOG_SECONDS = 10.0  # Envoy writes its access log once a second
_LOOK_SECONDS = 0.1
_MOST_RECONNECTS = 20
_MOST_PAIRS = 4  # times the wanted number: what is dropped is measured again
_TIMEOUT_SECONDS = 60
_WARM_UP = 30
# longer than a block of the picker's prefix index, so that it stays with one replica
_PROMPT = "Measure what the gateway adds to a request, and ask the same replica each time. " * 8


@dataclass(frozen=True)
class Answer:
    """Status and body of an answer, and the seconds until its last byte."""

    status: int
    body: bytes
    seconds: float


class KeepAlive:
    """An HTTP connection that reconnects, and counts it, when the other side closes it."""

    def __init__(self, address: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(address, port, timeout=_TIMEOUT_SECONDS)
        self.where = f"{address}:{port}"
        self.reconnects = 0

    def ask(
        self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] = {}
    ) -> Answer:
        """Return the answer to a request; resend it if the connection was closed.

        Raises:
            CommandError: nothing answers, or the connection is closed again and again.
        """
        while True:
            try:
                if self._connection.sock is None:
                    self._connection.connect()  # outside the time that is measured
                begun = time.perf_counter()
                self._connection.request(method, path, body, dict(headers))
                answer = self._connection.getresponse()
                text = answer.read()
                return Answer(answer.status, text, time.perf_counter() - begun)
            except (ConnectionRefusedError, TimeoutError) as error:
                raise CommandError(f"{self.where}: {error}") from error
            except (ConnectionError, http.client.HTTPException) as error:
                self._count(error)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _count(self, error: Exception) -> None:
        self._connection.close()
        self.reconnects += 1
        if self.reconnects > _MOST_RECONNECTS:
            reason = str(error) or type(error).__name__
            raise CommandError(f"{self.where} closed {self.reconnects} connections: {reason}")


class AccessLog:
    """The requests in the new log entries of a cluster's gateways."""

    def __init__(self, cluster: Path) -> None:
        self._folder = cluster / "logs"
        self._read_to = {file: file.stat().st_size for file in self._files()}
        self._served: dict[str, Served] = {}

    def find(self, traces: Collection[str]) -> Mapping[str, Served]:
        """Return each trace that is logged in time."""
        until = time.monotonic() + _LOG_SECONDS
        while True:
            self._read()
            found = {trace: self._served[trace] for trace in traces if trace in self._served}
            if len(found) == len(traces) or time.monotonic() > until:
                return found
            time.sleep(_LOOK_SECONDS)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("gateway-*.access.jsonl"))

    def _read(self) -> None:
        for file in self._files():
            self._read_to.setdefault(file, 0)
        for entry in entries(self._read_to):
            trace = trace_of(entry)
            if trace:
                self._served[trace] = Served(str(entry.get("endpoint")), waits_of(entry))


def waits_of(entry: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds that a request waited for each processor.

    Headers and body of a request are sent to it at once, so the longer of the two waits counts.
    """
    found: dict[str, float] = {}
    processors: dict[str, dict[str, str | None]] = entry.get("processors") or {}
    for name, waits in processors.items():
        headers, body, response = (
            float(waits.get(each) or 0)  # Envoy writes what a filter says as text
            for each in ("request_headers_us", "request_body_us", "response_headers_us")
        )
        if headers or body or response:
            found[name] = (max(headers, body) + response) / 1e6
    return found


@dataclass
class Hop:
    """Times of request pairs to one replica, in seconds, and the numbers of dropped pairs."""

    endpoint: str
    direct: list[float] = field(default_factory=list[float])
    through: list[float] = field(default_factory=list[float])
    waits: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    """Seconds that each request waited for each processor, within `through`."""
    elsewhere: int = 0
    """Pairs left out as another replica answered through the gateway."""
    reconnects: int = 0
    """Connections that were closed by the other side; the pair is left out."""

    @property
    def added(self) -> list[float]:
        """Difference of each pair."""
        pairs = zip(self.through, self.direct, strict=True)
        return [through - direct for through, direct in pairs]

    def rows(self) -> list[dict[str, object]]:
        """Return the figures of each path, and of the differences by pair."""
        hop = _row("gateway hop (pair by pair)", self.added)
        hop |= {"elsewhere": self.elsewhere, "reconnects": self.reconnects}
        return [
            _row("one token, replica", self.direct),
            _row("one token, gateway", self.through),
            *self._parts(),
            hop,
        ]

    def _parts(self) -> list[dict[str, object]]:
        """Return the parts of the hop: the wait for each processor, and Envoy's own."""
        names = list(dict.fromkeys(name for waits in self.waits for name in waits))
        if not names:
            return []
        own = [
            added - sum(waits.values()) for added, waits in zip(self.added, self.waits, strict=True)
        ]
        parts = [
            _row(
                f"in the hop: {name.rpartition('/')[2]}",
                [waits.get(name, 0.0) for waits in self.waits],
            )
            for name in names
        ]
        return [*parts, _row("in the hop: Envoy and connections", own)]


def _row(what: str, seconds: list[float]) -> dict[str, object]:
    p50, p99 = percentiles(seconds)
    return {"what": what, "n": len(seconds), "p50_ms": p50, "p99_ms": p99}


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """Return the 50th and 99th percentiles, in milliseconds with two decimals."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return round(1000 * cuts[49], 2), round(1000 * cuts[98], 2)


class Pairs:
    """Sends requests to the replicas of a model, directly and through a gateway.

    Args:
        gateway: Address and port of the gateway.
        replicas: Model by endpoint `ADDRESS:PORT` of a ready replica.
        find: Function that returns what the access log says about each trace.
    """

    def __init__(self, gateway: tuple[str, int], replicas: Mapping[str, str], find: Find) -> None:
        self._gateway = KeepAlive(*gateway)
        self._replicas = replicas
        self._find = find

    def measure(self, wanted: int) -> Hop:
        """Return the times of the wanted number of pairs.

        Raises:
            CommandError: something refuses, or the gateway's requests keep meeting other replicas.
        """
        with closing(self._gateway):
            endpoint, model = self._meet()
            address, _, port = endpoint.rpartition(":")
            with closing(KeepAlive(address, int(port))) as direct:
                return self._measure(Hop(endpoint), direct, model, wanted)

    def _measure(self, hop: Hop, direct: KeepAlive, model: str, wanted: int) -> Hop:
        for _ in range(_WARM_UP):
            self._ask(direct, model)
        asked = 0
        while (missing := wanted - len(hop.direct)) > 0:
            if asked >= _MOST_PAIRS * wanted:
                raise CommandError(
                    f"{len(hop.direct)} of {asked} pairs met {hop.endpoint}, needed {wanted}: "
                    f"{hop.elsewhere} met other replicas, {hop.reconnects} a closed connection"
                )
            self._batch(hop, direct, model, missing)
            asked += missing
        return hop

    def _meet(self) -> tuple[str, str]:
        """Return the replica that the gateway prefers, and its model."""
        for model in dict.fromkeys(self._replicas.values()):
            traces = [self._ask(self._gateway, model)[0] for _ in range(_WARM_UP)]
            met = Counter(
                served.endpoint
                for served in self._find(traces).values()
                if self._replicas.get(served.endpoint) == model
            )
            if met:
                return met.most_common(1)[0][0], model
        raise CommandError(f"the gateway met none of the replicas {', '.join(self._replicas)}")

    def _batch(self, hop: Hop, direct: KeepAlive, model: str, count: int) -> None:
        """Measure pairs in alternating order, and keep those of one replica."""
        ways = (direct, self._gateway)
        taken: dict[str, tuple[float, float]] = {}
        for number in range(count):
            before = sum(way.reconnects for way in ways)
            seconds: dict[KeepAlive, float] = {}
            trace = ""
            for way in ways if number % 2 == 0 else ways[::-1]:
                asked, seconds[way] = self._ask(way, model)
                trace = asked if way is self._gateway else trace
            lost = sum(way.reconnects for way in ways) - before
            hop.reconnects += lost
            if not lost:
                taken[trace] = (seconds[direct], seconds[self._gateway])
        found = self._find(taken.keys())
        for trace, (straight, through) in taken.items():
            served = found.get(trace)
            if served is not None and served.endpoint == hop.endpoint:
                hop.direct.append(straight)
                hop.through.append(through)
                hop.waits.append(served.waits)
            else:
                hop.elsewhere += 1

    @staticmethod
    def _ask(way: KeepAlive, model: str) -> tuple[str, float]:
        """Request one token; return the trace ID and the seconds."""
        trace = os.urandom(16).hex()
        answer = way.ask(
            "POST",
            "/v1/completions",
            json.dumps({"model": model, "prompt": _PROMPT, "max_tokens": 1}),
            {
                "Content-Type": "application/json",
                "traceparent": f"00-{trace}-{os.urandom(8).hex()}-00",
            },
        )
        if answer.status != http.client.OK:
            raise CommandError(f"{way.where}: HTTP {answer.status} {answer.body[:200]!r}")
        return trace, answer.seconds
