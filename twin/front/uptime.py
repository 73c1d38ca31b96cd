"""Cloud Monitoring's uptime checks: what they request, when they pass, and their series."""

import http.client
import json
import logging
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from twin.cluster.monitoring.durations import Clock, seconds
from twin.front import dns
from twin.front.cloud import Cloud
from twin.host.paths import TwinPaths
from twin.wire.property_values import Json, as_list, as_object, get_path, last_segment
from twin.wire.text_page import TextPage
from twin.world.nearness import CLIENT_REGION
from twin.world.rules import Rules
from twin.world.store import Listing, Record

CHECK: Final = "gcp:monitoring/uptimeCheckConfig:UptimeCheckConfig"
PASSED: Final = "monitoring_googleapis_com:uptime_check_check_passed"
EXPIRES: Final = "monitoring_googleapis_com:uptime_check_time_until_ssl_cert_expires"
_LOOPBACK: Final = "127.0.0.1"
_ROUND_SECONDS: Final = 0.5
_DAY_SECONDS: Final = 86_400
_LOCATIONS: Final = {
    "USA_OREGON": ("usa-oregon", "us-west1"),
    "USA_IOWA": ("usa-iowa", "us-central1"),
    "USA_VIRGINIA": ("usa-virginia", "us-east4"),
    "EUROPE": ("eur-belgium", "europe-west1"),
    "SOUTH_AMERICA": ("sa-brazil-sao_paulo", "southamerica-east1"),
    "ASIA_PACIFIC": ("apac-singapore", "asia-southeast1"),
}
"""Checkers by region of the API: the label `checker_location`, and the nearest region of Google
(rule monitoring.uptime)."""
_CLASSES: Final = {
    f"STATUS_CLASS_{digit}XX": range(digit * 100, digit * 100 + 100) for digit in range(1, 6)
}
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Check:
    """An HTTP uptime check."""

    check_id: str
    host: str
    project: str
    path: str
    port: int
    is_tls: bool
    is_validated: bool
    period: str
    timeout_seconds: float
    accepted: frozenset[int]
    """Status codes with which it passes."""
    checkers: tuple[tuple[str, str], ...]
    """Values of `_LOCATIONS`."""


@dataclass(frozen=True)
class Seen:
    """What one checker saw."""

    is_passed: bool
    expires_days: float | None = None
    """Days until the certificate expires; None if there is none, or if it is not trusted."""


def checks(records: Iterable[Record]) -> Iterator[Check]:
    """Yield the HTTP checks of `uptime_url` resources."""
    for record in Cloud.of(records).records:
        found = as_object(record.inputs.get("httpCheck"))
        host = get_path(record.inputs, "monitoredResource.labels.host")
        if record.type != CHECK or found is None or not host:
            continue
        is_tls = found.get("useSsl") is True
        wanted = [str(each) for each in as_list(record.inputs.get("selectedRegions")) or []]
        yield Check(
            check_id=last_segment(record.id),
            host=str(host),
            project=record.project,
            path=f"/{str(found.get('path') or '/').removeprefix('/')}",
            port=int(str(found.get("port") or (443 if is_tls else 80))),
            is_tls=is_tls,
            is_validated=found.get("validateSsl") is True,
            period=str(record.inputs.get("period") or "300s"),
            timeout_seconds=seconds(str(record.inputs.get("timeout") or "10s")),
            accepted=_accepted(found),
            checkers=tuple(
                checker
                for region, checker in _LOCATIONS.items()
                if not wanted or any(region.startswith(each) for each in wanted)
            ),
        )


def _accepted(http_check: Json) -> frozenset[int]:
    """Return the status codes with which a check passes: 200 to 299 unless it names some."""
    found: set[int] = set()
    for each in map(as_object, as_list(http_check.get("acceptedResponseStatusCodes")) or []):
        if each is None:
            continue
        if each.get("statusClass") == "STATUS_CLASS_ANY":
            found |= set(range(100, 600))
        found |= set(_CLASSES.get(str(each.get("statusClass")), ()))
        if each.get("statusValue"):
            found.add(int(str(each["statusValue"])))
    return frozenset(found or _CLASSES["STATUS_CLASS_2XX"])


def look(check: Check, address: str, region: str, trusted: str) -> Seen:
    """Return what a checker sees at an address, without credentials and without redirects.

    Args:
        check: The check.
        address: Address that the host resolves to for the checker.
        region: Region of the checker.
        trusted: File with the trusted certificate authorities.
    """
    try:
        connection, expires = _connect(check, address, trusted)
    except (OSError, http.client.HTTPException):
        return Seen(is_passed=False)
    try:
        headers = {"Host": check.host, "User-Agent": "GoogleStackdriverMonitoring-UptimeChecks"}
        connection.request("GET", check.path, headers={**headers, CLIENT_REGION: region})
        return Seen(connection.getresponse().status in check.accepted, expires)
    except (OSError, http.client.HTTPException):
        return Seen(False, expires)
    finally:
        connection.close()


def _connect(
    check: Check, address: str, trusted: str
) -> tuple[http.client.HTTPConnection, float | None]:
    timeout = check.timeout_seconds
    connection = http.client.HTTPConnection(address, check.port, timeout=timeout)
    connection.connect()
    if not check.is_tls:
        return connection, None
    context = ssl.create_default_context(cafile=trusted)
    if not check.is_validated:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        wrapped = context.wrap_socket(connection.sock, server_hostname=check.host)
    except OSError:
        connection.close()
        raise
    connection.sock = wrapped  # the plain one is detached
    ends = (wrapped.getpeercert() or {}).get("notAfter")
    if not ends:
        return connection, None
    return connection, (ssl.cert_time_to_seconds(str(ends)) - time.time()) / _DAY_SECONDS


class Uptime:
    """The checks of a cloud, and a page with their series for each cluster's Prometheus."""

    def __init__(self, paths: TwinPaths) -> None:
        self._paths = paths
        self._resources = Listing(paths, (CHECK,))
        self._due: dict[tuple[Check, str], float] = {}
        self._seen: dict[tuple[Check, str], Seen] = {}
        self._served: TextPage | None = None
        rules = Rules.of(paths)
        self._clock = Clock(rules.speed, float(rules.value("monitoring.interval.shortest")))

    def run(self, stop: threading.Event) -> None:
        """Run checks until `stop` is set."""
        while not stop.wait(_ROUND_SECONDS):
            try:
                self.round(time.monotonic())
            except OSError as error:
                _log.warning("uptime: %s", error)
        self.close()

    def close(self) -> None:
        """End the page."""
        if self._served is not None:
            self._served.close()
            self._served = None

    def round(self, now: float) -> None:
        """Run the checks that are due, and serve what they saw."""
        wanted = {
            (check, name): region
            for check in checks(self._resources.all())
            for name, region in check.checkers
        }
        self._seen = {key: seen for key, seen in self._seen.items() if key in wanted}
        self._due = {key: self._due.get(key, now) for key in wanted}
        for (check, name), region in wanted.items():
            if now < self._due[check, name]:
                continue
            self._due[check, name] = now + seconds(self._clock.interval(check.period))
            addresses = dns.resolve(self._paths, check.host, region)
            self._seen[check, name] = (
                look(check, addresses[0], region, str(self._paths.ca_bundle))
                if addresses
                else Seen(is_passed=False)
            )
        if wanted and self._served is None:
            self._serve()

    def page(self) -> str:
        """Return the series in Prometheus' text format."""
        return "".join(f"{line}\n" for line in _lines(dict(self._seen)))

    def _serve(self) -> None:
        self._served = TextPage((_LOOPBACK, 0), "uptime-page", self.page)
        partial = self._paths.uptime_file.with_suffix(".tmp")
        partial.write_text(json.dumps({"port": self._served.port}))
        partial.replace(self._paths.uptime_file)


def _lines(seen: dict[tuple[Check, str], Seen]) -> Iterator[str]:
    for (check, location), each in seen.items():
        labels = (
            f'check_id="{check.check_id}",checker_location="{location}",host="{check.host}",'
            f'project_id="{check.project}"'
        )
        yield f"{PASSED}{{{labels}}} {int(each.is_passed)}"
        if each.expires_days is not None:
            yield f"{EXPIRES}{{{labels}}} {each.expires_days:.3f}"
