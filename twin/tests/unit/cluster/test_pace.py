"""Rests between the scans of a controller."""

import threading
import time

import pytest

from twin.cluster.base.pace import LOOK_SECONDS, rest, wait_unless


@pytest.mark.parametrize(("used", "seconds"), [(0.0, 0.0), (0.1, 0.9), (5.0, 2.0)])
def test_a_controller_rests_in_proportion_to_what_its_scan_used(monkeypatch, used, seconds):
    monkeypatch.setattr(time, "thread_time", lambda: 10.0 + used)
    assert rest(10.0) == pytest.approx(seconds)


def test_a_rest_ends_when_something_is_due_that_cannot_wait():
    asked = iter([False, True])
    begun = time.monotonic()
    wait_unless(threading.Event(), 60.0, lambda: next(asked))
    assert 2 * LOOK_SECONDS <= time.monotonic() - begun < 30.0


def test_a_controller_that_scans_again_at_once_looks_for_nothing_before():
    asked: list[bool] = []
    wait_unless(threading.Event(), LOOK_SECONDS / 3, lambda: not asked.append(True))
    assert asked == []
