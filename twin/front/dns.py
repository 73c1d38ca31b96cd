"""Cloud DNS: answers with the nearest healthy targets of a record, and health checks."""

import http.client
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gke_inference.catalogue.nearness import by_nearness
from twin.host.paths import TwinPaths
from twin.providers.gcp.checks.suppress import relative_path
from twin.wire.property_values import Json, as_list, as_object, get_path
from twin.world.rules import all_rules
from twin.world.store import Listing, Record, list_resources

_RECORD: Final = "gcp:dns/recordSet:RecordSet"
_CHECK: Final = "gcp:compute/healthCheck:HealthCheck"
_PERIOD_SECONDS: Final = 0.5
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Probe:
    """The health check of one address."""

    address: str
    port: int
    interval_seconds: float
    failures: int = 2
    """Consecutive failures until the address is unhealthy."""
    timeout_seconds: float = 5
    is_tls: bool = False
    host: str = ""
    path: str | None = None
    """None if a connection is enough."""


def answer(
    records: Iterable[Record], hostname: str, client: str, is_healthy: Callable[[str], bool]
) -> list[str]:
    """Return the addresses that a client of a region gets for a host name; empty if it is unknown.

    Without fencing, these are the next region's if the nearest has no healthy target, and the
    nearest's if no target is healthy (rule front.dns).
    """
    record = next(
        (
            each
            for each in records
            if each.type == _RECORD
            and each.inputs.get("name") == f"{hostname}."
            and each.inputs.get("type") == "A"
        ),
        None,
    )
    if record is None:
        return []
    plain = as_list(record.inputs.get("rrdatas"))
    if plain:
        return [str(each) for each in plain]
    policy = as_object(record.inputs.get("routingPolicy")) or {}
    places = {str(each.get("location")): _targets(each) for each in _objects(policy.get("geos"))}
    ordered = by_nearness(client, places)
    for place in ordered[:1] if policy.get("enableGeoFencing") is True else ordered:
        healthy = [each for each in places[place] if is_healthy(each)]
        if healthy:
            return healthy
    return places[ordered[0]] if ordered else []


def resolve(paths: TwinPaths, hostname: str, client: str) -> list[str]:
    """Return the answer of the twin's Cloud DNS to a client of a region."""
    down = set(_verdicts(paths))
    return answer(
        list_resources(paths, (_RECORD,)), hostname, client, lambda each: each not in down
    )


def probes(records: Iterable[Record]) -> Iterator[Probe]:
    """Yield the health checks of all records' targets; targets without one are omitted."""
    known = list(records)
    checks = {each.id: each for each in known if each.type == _CHECK}
    for record in known:
        if record.type != _RECORD:
            continue
        policy = as_object(record.inputs.get("routingPolicy")) or {}
        check = checks.get(relative_path(str(policy.get("healthCheck") or "")))
        for geo in _objects(policy.get("geos")):
            for address in as_list(get_path(geo, "healthCheckedTargets.externalEndpoints")) or []:
                if check is not None:
                    yield _probe(check, str(address))
            for inner in _objects(get_path(geo, "healthCheckedTargets.internalLoadBalancers")):
                yield Probe(
                    address=str(inner.get("ipAddress")),
                    port=int(str(inner.get("port"))),
                    interval_seconds=float(all_rules()["front.dns.internal"].value),
                    failures=1,
                )


def _probe(check: Record, address: str) -> Probe:
    is_tls = bool(check.inputs.get("httpsHealthCheck"))
    kind = "httpsHealthCheck" if is_tls else "httpHealthCheck"
    found = as_object(check.inputs.get(kind) or check.inputs.get("tcpHealthCheck")) or {}
    has_path = bool(check.inputs.get(kind))
    return Probe(
        address=address,
        port=int(found.get("port") or (443 if is_tls else 80)),
        interval_seconds=float(check.inputs.get("checkIntervalSec") or 5),
        failures=int(check.inputs.get("unhealthyThreshold") or 2),
        timeout_seconds=float(check.inputs.get("timeoutSec") or 5),
        is_tls=is_tls,
        host=str(found.get("host") or ""),
        path=str(found.get("requestPath") or "/") if has_path else None,
    )


def _targets(geo: Json) -> list[str]:
    external = as_list(get_path(geo, "healthCheckedTargets.externalEndpoints")) or []
    inner = [
        each.get("ipAddress")
        for each in _objects(get_path(geo, "healthCheckedTargets.internalLoadBalancers"))
    ]
    return [str(each) for each in [*(as_list(geo.get("rrdatas")) or []), *external, *inner]]


def _objects(value: object) -> list[Json]:
    return [each for each in map(as_object, as_list(value) or []) if each is not None]


@dataclass
class _Target:
    due: float = 0.0
    failed: int = 0


@dataclass
class Prober:
    """Health checks of targets, with the unhealthy ones."""

    paths: TwinPaths
    _targets: dict[Probe, _Target] = field(default_factory=dict[Probe, _Target])

    def __post_init__(self) -> None:
        self._resources = Listing(self.paths, (_RECORD, _CHECK))

    def run(self, stop: threading.Event) -> None:
        """Run health checks until `stop` is set."""
        while not stop.wait(_PERIOD_SECONDS):
            try:
                self.round(time.monotonic())
            except OSError as error:
                _log.warning("dns: %s", error)

    def round(self, now: float) -> None:
        """Check the targets that are due, and record the results."""
        wanted = set(probes(self._resources.all()))
        self._targets = {probe: self._targets.get(probe, _Target()) for probe in wanted}
        for probe, target in self._targets.items():
            if now < target.due:
                continue
            target.due = now + probe.interval_seconds
            target.failed = 0 if answers(probe) else target.failed + 1
        down = {probe.address for probe, at in self._targets.items() if at.failed >= probe.failures}
        if sorted(down) != _verdicts(self.paths):
            file = self.paths.root / "dns.json"
            partial = file.with_suffix(".tmp")
            partial.write_text(json.dumps({"unhealthy": sorted(down)}))
            partial.replace(file)


def answers(probe: Probe) -> bool:
    """Return whether an address answers a probe, with 200 if the probe has a path."""
    try:
        if probe.is_tls:  # as Google's probes, it looks at no name and no issuer
            context = ssl._create_unverified_context()  # noqa: S323
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                probe.address, probe.port, timeout=probe.timeout_seconds, context=context
            )
        else:
            connection = http.client.HTTPConnection(
                probe.address, probe.port, timeout=probe.timeout_seconds
            )
        try:
            if probe.path is None:
                connection.connect()
                return True
            connection.request("GET", probe.path, headers={"Host": probe.host or probe.address})
            return connection.getresponse().status == http.client.OK
        finally:
            connection.close()
    except (OSError, http.client.HTTPException):
        return False


def _verdicts(paths: TwinPaths) -> list[str]:
    try:
        return list(json.loads((paths.root / "dns.json").read_text())["unhealthy"])
    except (FileNotFoundError, ValueError, KeyError):
        return []
