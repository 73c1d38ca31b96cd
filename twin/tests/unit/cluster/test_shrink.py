"""What the autoscaler's rest must not delay: machines that are withdrawn."""

from types import SimpleNamespace
from typing import Any

import pytest

from twin.cluster.autoscaler import shrink
from twin.cluster.autoscaler.shrink import Shrinker


class World:
    """A ledger, and the machines that it takes away."""

    def __init__(self) -> None:
        self.lost: dict[str, str] = {}
        self.ledger = SimpleNamespace(to_take_away=lambda: dict(self.lost))
        self.removed: set[str] = set()

    def remove(self, item: dict[str, Any], message: str) -> None:
        del message
        self.removed.add(item["metadata"]["name"])


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def scan(world: World, monkeypatch):
    """Return a shrinker of a cluster with the node `a`, and a function that scans it at a time."""
    now = [0.0]
    monkeypatch.setattr(shrink.time, "monotonic", lambda: now[0])
    patches: list[str] = []
    ctx: Any = SimpleNamespace(
        dir=SimpleNamespace(name="c"),
        events=SimpleNamespace(emit=lambda *_, **__: None),
        kube=SimpleNamespace(patch=lambda path, _: patches.append(path)),
        rules=SimpleNamespace(scaled=lambda _: 30.0),
    )
    provisioner: Any = world
    shrinker = Shrinker(ctx, provisioner)
    item = {"metadata": {"name": "a"}, "spec": {}}
    node: Any = SimpleNamespace(
        name="a", group="a", item=item, pod_items=[], pool="p", zone="z", labels={}, empty=False
    )
    cluster: Any = SimpleNamespace(
        nodes=[node], orphans=[], booked=set(), held=set(), pools={}, pool_counts={}
    )

    def at(seconds: float) -> Shrinker:
        now[0] = seconds
        shrinker.scan(cluster, [])
        return shrinker

    return SimpleNamespace(at=at, now=now, patches=patches)


def test_a_machine_that_is_withdrawn_during_a_rest_is_due(world: World, scan):
    shrinker = scan.at(1.0)
    assert not shrinker.is_due()
    world.lost["a"] = "preempted"
    assert shrinker.is_due()


def test_the_end_of_a_notice_is_due_at_its_second(world: World, scan):
    world.lost["a"] = "preempted"
    shrinker = scan.at(1.0)
    assert scan.patches == ["/api/v1/nodes/a"]
    scan.now[0] = 30.9
    assert not shrinker.is_due()
    scan.now[0] = 31.0
    assert shrinker.is_due()
    assert not scan.at(31.0).is_due()
    assert world.removed == {"a"}
