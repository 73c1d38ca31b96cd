"""Where series come from: the twin's Prometheus, Managed Prometheus, or another server."""

import ipaddress
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from infra.plan import Plan, RegionPlan
from infra.stack.problems import unread
from scripts.calibrate.stack import Site
from scripts.shared.google_cloud import Cloud
from scripts.terminal.console import CommandError
from twin.cluster import lifecycle
from twin.cluster.base.context import ClusterSpec
from twin.cluster.monitoring import promql
from twin.cluster.monitoring.promql import History, QueryError, Series
from twin.cluster.monitoring.server import address_of
from twin.host.paths import TwinPaths
from twin.wire.kube import Kube

BEARER_VARIABLE: Final = "GKE_INFERENCE_PROMETHEUS_TOKEN"
_SECONDS: Final = 30
_MOST_TOKEN_BYTES: Final = 16_384


@dataclass(frozen=True)
class Server:
    """A Prometheus server."""

    url: str
    """Without a slash at its end; may have a path."""
    token: str | None = field(default=None, repr=False)
    """Bearer token."""
    ca_file: Path | None = None
    """Certificates that it is checked against, in place of the machine's."""

    def history(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        """Return the series of an expression over a time range.

        Raises:
            QueryError: The server does not answer, or refuses.
        """
        import requests  # noqa: PLC0415 - loads for a quarter of a second

        try:
            answer = requests.post(
                f"{self.url}/api/v1/query_range",
                data={"query": expression, "start": start, "end": end, "step": step},
                headers={} if self.token is None else {"Authorization": f"Bearer {self.token}"},
                timeout=_SECONDS,
                verify=True if self.ca_file is None else str(self.ca_file),
                allow_redirects=False,  # the token is for this server alone
            )
        except (requests.RequestException, OSError) as error:
            raise QueryError(f"{self.url}: {' '.join(str(error).split())}") from None
        if answer.status_code != HTTPStatus.OK:
            raise QueryError(f"{self.url}: status {answer.status_code}{_reason(answer)}")
        try:
            return promql.series(answer.json())
        except (KeyError, TypeError, ValueError):
            text = answer.text[:60]
            raise QueryError(f"{self.url}: must be a Prometheus server, got {text!r}") from None


def _reason(answer: Any) -> str:
    try:
        said = str(answer.json()["error"])
    except (KeyError, TypeError, ValueError):
        said = answer.text[:120]
    said = " ".join(said.split())
    return f": {said}" if said else ""


def server_of(url: str, token_file: Path | None, ca_file: Path | None) -> Server:
    """Return the server of the option `--prometheus`.

    Its token is that of a file, or else of the environment.

    Raises:
        CommandError: An option is not valid.
    """
    parts = _parts(url)
    if ca_file is not None and parts.scheme != "https":
        raise CommandError(f"--ca-file: must be omitted without https, got {str(ca_file)!r}")
    if ca_file is not None:
        _read("--ca-file", ca_file)
    token = os.environ.get(BEARER_VARIABLE) or None
    option = BEARER_VARIABLE
    if token_file is not None:
        token, option = _read("--token-file", token_file).strip(), "--token-file"
    if token is not None and (not token or not token.isascii() or any(map(str.isspace, token))):
        raise CommandError(f"{option}: must be one word of ASCII, got {len(token)} characters")
    if token is not None and parts.scheme == "http" and not _is_here(str(parts.hostname)):
        rule = "must be https with a token, which others could read otherwise"
        raise CommandError(f"--prometheus: {rule}, got {url!r}")
    return Server(parts.geturl().rstrip("/"), token, ca_file)


def _parts(url: str) -> Any:
    refused = CommandError(f"--prometheus: must be http(s)://HOST[:PORT][/PATH], got {url!r}")
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for no number
    except ValueError:
        raise refused from None
    rest = parts.query or parts.fragment or parts.username or parts.password
    if parts.scheme not in {"http", "https"} or not parts.hostname or rest:
        raise refused
    return parts


def _read(option: str, file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(64 * _MOST_TOKEN_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        why = unread(error) if isinstance(error, OSError) else "it is not text"
        raise CommandError(f"{option}: must be a readable file, got {str(file)!r}: {why}") from None
    if option == "--token-file" and len(text) > _MOST_TOKEN_BYTES:
        rule = f"must have at most {_MOST_TOKEN_BYTES:,} bytes"
        raise CommandError(f"{option}: {rule}, got more in {str(file)!r}")
    return text


def _is_here(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def history_of(cloud: Cloud) -> History:
    """Return the query API of Managed Prometheus in a project.

    Source: docs.cloud.google.com/monitoring/api/ref_v3/rest/v1/
    projects.location.prometheus.api.v1/query_range (2026-11-30).
    """
    url = f"monitoring.googleapis.com/v1/projects/{cloud.project}/location/global/prometheus"

    def history(expression: str, start: float, end: float, step: float) -> Sequence[Series]:
        fields = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        answer = cloud.get(f"{url}/api/v1/query_range", query=expression, **fields)
        try:
            return promql.series(answer)
        except (KeyError, TypeError, ValueError):
            raise QueryError(f"{url}: the answer does not have the documented form") from None

    return history


def of_twin(address: str) -> History:
    """Return the queries of a cluster's Prometheus on the twin."""

    def history(expression: str, start: float, end: float, step: float) -> Sequence[Series]:
        return promql.query_range(address, expression, start, end, step)

    return history


def regions_on_twin(
    plan: Plan, stack: str, paths: TwinPaths
) -> Iterator[tuple[RegionPlan, Kube, str]]:
    """Yield each region of a stack on a twin that runs: API server, and address of Prometheus.

    Raises:
        CommandError: The twin is not running, or the stack is not up there.
    """
    from scripts.backend.twin import TwinBackend  # noqa: PLC0415 - loads HTTP clients

    backend = TwinBackend(stack, paths)
    backend.endpoint()  # refuses a stack that is not up
    folders = {ClusterSpec.load(each).name: each for each in lifecycle.folders(paths)}
    apis = {cluster.name: cluster.kube for cluster in backend.clusters()}
    for region in plan.regions.values():
        address = address_of(folders[region.cluster_name])
        if address is None:
            raise CommandError(f"cluster {region.cluster_name} has no Prometheus yet; try again")
        yield region, apis[region.cluster_name], address


def sites_on_twin(
    plan: Plan, stack: str, paths: TwinPaths, server: Server | None, matchers: str
) -> list[Site]:
    """Return the clusters of a stack on a twin that runs.

    Raises:
        CommandError: The twin is not running, or the stack is not up there.
    """
    return [
        Site(region, kube, of_twin(address) if server is None else server.history, matchers or None)
        for region, kube, address in regions_on_twin(plan, stack, paths)
    ]


def sites_in_cloud(
    plan: Plan, stack: str, cloud: Cloud, token: Any, server: Server | None, matchers: str
) -> list[Site]:
    """Return the clusters of a stack that exist in its project.

    Args:
        plan: The stack.
        stack: Its name.
        cloud: APIs of the project.
        token: Returns an access token of the caller.
        server: Server that has the series; default: Managed Prometheus.
        matchers: PromQL matchers of the series on that server.

    Raises:
        CommandError: There is no cluster.
        CloudError: Google refuses.
    """
    from scripts.backend.cloud import CloudBackend  # noqa: PLC0415 - loads clients

    backend = CloudBackend(plan, stack, cloud, token)
    apis: Mapping[str, Any] = {one.name: one.kube for one in backend.clusters()}
    history = history_of(backend.cloud) if server is None else server.history
    return [
        Site(region, apis[region.cluster_name], history, matchers or None)
        for region in plan.regions.values()
        if region.cluster_name in apis
    ]
