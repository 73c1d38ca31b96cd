"""A thousand nodes and two thousand pods on one control plane of the twin."""

import pytest

from bench.measures import scale_rows
from scripts.shared.engine import Engine
from twin import daemon
from twin.host.paths import TwinPaths

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1800)]

MOST_SECONDS = 115.0
"""From the first node to the last pod Ready with 1,000 nodes, on 2 idle cores: what the twin took
before its controllers shared their watches. docs/benchmarks.md has later results."""


def test_every_node_and_pod_becomes_ready_and_goes_again(tmp_path, record_property):
    paths = TwinPaths(tmp_path / "twin")
    try:
        rows = scale_rows(Engine(paths), 1)
    finally:
        daemon.shut_down(paths)
    assert [(row["nodes"], row["pods"]) for row in rows] == [(100, 200), (1000, 2000)]
    assert rows[1]["nodes_ready"] + rows[1]["pods_ready"] <= MOST_SECONDS
    words = (
        "{nodes:,} nodes Ready after {nodes_ready:.0f} s, {pods:,} pods after {pods_ready:.0f} s "
        "more, removed in {cleaned_up:.0f} s"
    )
    record_property("figures", "; ".join(words.format(**row) for row in rows))
