"""The start of kube-state-metrics, and its address across restarts."""

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from twin.cluster.monitoring import addresses, kube_state_metrics
from twin.cluster.monitoring.kube_state_metrics import KubeStateMetrics
from twin.host import processes
from twin.host.paths import TwinPaths


@pytest.fixture
def ctx(tmp_path) -> Any:
    """A cluster's context with a folder and a program."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    return SimpleNamespace(
        dir=folder,
        kubeconfig=folder / "kubeconfig",
        paths=TwinPaths(tmp_path / "twin"),
        tool=lambda program: f"/tools/{program}",
    )


@pytest.fixture
def started(monkeypatch) -> list[list[str]]:
    """The commands that were started; each process ends at once."""
    commands: list[list[str]] = []
    monkeypatch.setattr(processes, "start", lambda _paths, _name, argv: commands.append(argv))
    return commands


def test_it_listens_on_loopback_alone_and_reports_gkes_series_alone(ctx, started):
    server = KubeStateMetrics(ctx)
    server.ensure()
    (argv,) = started
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in argv[1:])
    assert argv[0] == "/tools/kube-state-metrics"
    assert flags.pop("host") == "127.0.0.1"
    assert flags.pop("telemetry-host") == "127.0.0.1"
    assert server.address == f"127.0.0.1:{flags.pop('port')}"
    assert flags.pop("telemetry-port") not in server.address
    assert flags.pop("kubeconfig") == str(ctx.kubeconfig)
    assert flags.pop("resources") == (
        "pods,deployments,statefulsets,daemonsets,horizontalpodautoscalers"
    )
    assert set(flags.pop("metric-allowlist").split(",")) >= {
        "kube_horizontalpodautoscaler_status_desired_replicas",
        "kube_pod_status_phase",
    }
    assert flags == {}


def test_one_that_ends_is_started_again_but_not_in_a_tight_loop(ctx, started, monkeypatch):
    now = 100.0
    monkeypatch.setattr(kube_state_metrics.time, "monotonic", lambda: now)
    server = KubeStateMetrics(ctx)
    for second in (100.0, 104.9, 105.0):
        now = second
        server.ensure()
    assert len(started) == 2
    assert started[0] == started[1]


def test_an_address_is_kept_and_given_up_when_a_stranger_has_it(ctx, started, monkeypatch):
    monkeypatch.setattr(addresses, "_CLOSING_SECONDS", 0.1)
    before = KubeStateMetrics(ctx).address
    assert KubeStateMetrics(ctx).address == before
    host, port = before.split(":")
    with socket.create_server((host, int(port))):
        assert addresses.is_taken(before)
        KubeStateMetrics(ctx).ensure()
    assert KubeStateMetrics(ctx).address != before
    assert not addresses.is_taken(before)
