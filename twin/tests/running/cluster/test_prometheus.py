"""The Prometheus process of a cluster, without a control plane."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from twin.cluster.base.context import ClusterContext
from twin.cluster.monitoring import promql
from twin.cluster.monitoring.server import PrometheusServer, process_name
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.toolchain import tool

_LIFECYCLE = "Lifecycle API is not enabled."
_ADMIN = "admin APIs disabled"

pytestmark = pytest.mark.needs_tools


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    paths = TwinPaths(tmp_path_factory.mktemp("twin"))
    paths.create()
    folder = paths.root / "one"
    ctx = cast("ClusterContext", SimpleNamespace(paths=paths, dir=folder, tool=tool))
    made = PrometheusServer(ctx)
    made.config.write_text("global: {external_labels: {version: first}}\n")
    made.ensure()
    yield made
    processes.stop(paths, process_name(folder))


def _ask(server: PrometheusServer, method: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(server.address, timeout=10)
    with closing(connection):
        connection.request(method, path, headers={"Origin": "https://evil.example"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def _configuration(server: PrometheusServer) -> str:
    answer: dict[str, Any] = json.loads(_ask(server, "GET", "/api/v1/status/config")[1])
    return answer["data"]["yaml"]


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/-/quit", _LIFECYCLE),
        ("/-/reload", _LIFECYCLE),
        ("/api/v1/admin/tsdb/delete_series?match[]=up", _ADMIN),
        ("/api/v1/admin/tsdb/snapshot", _ADMIN),
        ("/api/v1/admin/tsdb/clean_tombstones", _ADMIN),
    ],
)
def test_no_request_ends_reloads_or_empties_it(
    server: PrometheusServer, method: str, path: str, why: str
):
    status, text = _ask(server, method, path)
    assert status >= 400
    assert why in text
    assert promql.is_ready(server.address)


def test_a_new_configuration_counts_after_a_reload(server: PrometheusServer):
    assert "version: first" in _configuration(server)
    server.config.write_text("global: {external_labels: {version: second}}\n")
    assert "version: first" in _configuration(server)
    server.reload()
    assert "version: second" in _configuration(server)


def test_a_configuration_that_it_rejects_is_an_error_and_it_keeps_what_it_had(
    server: PrometheusServer,
):
    before = _configuration(server)
    server.config.write_text("global: {unknown: 1}\n")
    with pytest.raises(promql.QueryError, match="field unknown not found"):
        server.reload()
    assert _configuration(server) == before
    server.config.write_text("global: {external_labels: {version: third}}\n")
    server.reload()
    assert "version: third" in _configuration(server)
