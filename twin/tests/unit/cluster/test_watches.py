"""All followers of a collection share one watch."""

import queue
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from twin.cluster.base import watches as watches_module
from twin.cluster.base.watches import Watches
from twin.wire.kube import Kube

PODS = "/api/v1/pods"


def pod(uid: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid}, **more}


class FakeKube:
    """An API server whose events the test says."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.ended = threading.Event()

    def watch(
        self, path: str, stop: threading.Event, selector: str | None = None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        self.asked.append((path, selector))
        while not stop.is_set():
            try:
                event = self.events.get(timeout=0.02)
            except queue.Empty:
                yield "TICK", {}
                continue
            if isinstance(event, Exception):
                raise event
            yield event
        self.ended.set()


class Follower(threading.Thread):
    """Follows the pods until it is stopped."""

    def __init__(self, watches: Watches, selector: str | None = None) -> None:
        super().__init__(daemon=True)
        self.stopped = threading.Event()
        self._seen: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._events = watches.watch(PODS, self.stopped, selector)
        self.start()

    def run(self) -> None:
        for kind, item in self._events:
            if kind != "TICK":
                self._seen.put((kind, item.get("metadata", {}).get("uid")))

    def sees(self, *wanted: tuple[str, Any]) -> None:
        assert [self._seen.get(timeout=20) for _ in wanted] == list(wanted)


SYNCED = ("SYNCED", None)


@pytest.fixture
def kube(monkeypatch):
    monkeypatch.setattr(watches_module, "_PAUSE_SECONDS", 0.01)
    return FakeKube()


@pytest.fixture
def watches(kube):
    return Watches(cast("Kube", kube))


def say(kube: FakeKube, *events: tuple[str, dict[str, Any]]) -> None:
    for event in events:
        kube.events.put(event)


def test_all_who_follow_a_collection_share_one_watch_and_late_ones_learn_what_is_there(
    kube, watches
):
    first = Follower(watches)
    say(kube, ("ADDED", pod("a")), ("ADDED", pod("b")), ("SYNCED", {}), ("DELETED", pod("a")))
    first.sees(("ADDED", "a"), ("ADDED", "b"), SYNCED, ("DELETED", "a"))
    late = Follower(watches)
    late.sees(("ADDED", "b"), SYNCED)
    say(kube, ("MODIFIED", pod("b")))
    first.sees(("MODIFIED", "b"))
    late.sees(("MODIFIED", "b"))
    assert kube.asked == [(PODS, None)]


def test_another_selector_is_another_collection(kube, watches):
    followers = [Follower(watches), Follower(watches, "app=x")]
    say(kube, ("ADDED", pod("a")), ("ADDED", pod("a")))
    for _ in range(200):
        if len(kube.asked) == 2:
            break
        followers[0].join(0.05)
    assert sorted(kube.asked, key=str) == sorted([(PODS, None), (PODS, "app=x")], key=str)


def test_a_watch_that_breaks_begins_anew_and_tells_only_what_went_meanwhile(kube, watches):
    follower = Follower(watches)
    say(kube, ("ADDED", pod("a")), ("ADDED", pod("b")), ("SYNCED", {}))
    follower.sees(("ADDED", "a"), ("ADDED", "b"), SYNCED)
    kube.events.put(RuntimeError("half an answer"))
    say(kube, ("ADDED", pod("b")), ("SYNCED", {}))
    follower.sees(("ADDED", "b"), ("DELETED", "a"), SYNCED)


def test_the_last_one_that_leaves_ends_the_watch_and_the_next_begins_another(kube, watches):
    follower = Follower(watches)
    say(kube, ("ADDED", pod("a")), ("SYNCED", {}))
    follower.sees(("ADDED", "a"), SYNCED)
    follower.stopped.set()
    assert kube.ended.wait(20)
    again = Follower(watches)
    say(kube, ("ADDED", pod("c")), ("SYNCED", {}))
    again.sees(("ADDED", "c"), SYNCED)
    assert len(kube.asked) == 2
