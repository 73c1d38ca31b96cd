"""When `bench fairness` passes."""

import pytest

from bench import fairness
from bench.laboratory.fairness import QUIET, Ran, Waited
from simulator.traffic.report import Percentiles


def ran(p95: float, lag: float) -> Ran:
    return Ran({QUIET: Waited(99, 99, 0, 0, Percentiles.of([p95] * 20))}, lag)


@pytest.mark.parametrize(
    ("loaded", "lag", "passes"), [(1190, 250, True), (1210, 250, False), (1190, 251, False)]
)
def test_a_run_passes_within_the_bound_if_no_replica_fell_behind(
    monkeypatch, tmp_path, loaded, lag, passes
):
    monkeypatch.setattr(fairness, "_FILE", tmp_path / "fairness.json")
    monkeypatch.setattr(fairness, "REPOSITORY", tmp_path)
    monkeypatch.setattr(fairness, "ensure_tools", lambda _: None)
    runs = {True: [ran(1000, 0), ran(loaded, lag)], False: [ran(1000, 0), ran(9000, 999)]}
    monkeypatch.setattr(fairness, "measured", lambda flow, _: runs[flow is not None])
    assert fairness.measure() == passes
