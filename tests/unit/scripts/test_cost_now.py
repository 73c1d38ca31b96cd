"""Running replicas of a stack on the twin, and their cost."""

from dataclasses import dataclass

import pytest

from infra.plan import resolve
from infra.reading.load import read
from planner.amount import Amount
from scripts.shared import running_cost
from scripts.shared.placements import Placement
from twin.wire.kube import KubeError


@dataclass(frozen=True)
class Cluster:
    """As much of a cluster's folder as is asked for."""

    name: str


@pytest.fixture
def twin(monkeypatch):
    """Makes a twin of some clusters, with replicas that cost a dollar or have no price."""

    def made(*names, ports=(1, 2)):
        monkeypatch.setattr(running_cost.daemon, "ports", lambda paths: ports)
        monkeypatch.setattr(running_cost.clusters, "folders", lambda paths: names)
        monkeypatch.setattr(running_cost.ClusterSpec, "load", staticmethod(Cluster))
        found = [
            Placement("chat", name, "pod", "ready", "rung", "zone", price)
            for name in names
            for price in (Amount(1.0), None)
        ]
        monkeypatch.setattr(running_cost, "placements", lambda paths: found)

    return made


def test_only_the_clusters_of_the_stack_are_counted(twin):
    twin("acme-local-us-central1", "other-dev-us-central1")
    assert running_cost.running(resolve(read("local"))) == 1.0


def test_a_twin_that_runs_another_stack_costs_this_one_nothing_that_is_known(twin):
    twin("other-dev-us-central1")
    assert running_cost.running(resolve(read("local"))) is None


def test_a_twin_that_is_down_is_no_cost_of_zero(twin):
    twin("acme-local-us-central1", ports=None)
    assert running_cost.running(resolve(read("local"))) is None


def test_a_cluster_that_does_not_answer_is_no_cost_of_zero(twin, monkeypatch):
    twin("acme-local-us-central1")

    def away(paths):
        raise KubeError(0, "", "away", {})

    monkeypatch.setattr(running_cost, "placements", away)
    assert running_cost.running(resolve(read("local"))) is None
