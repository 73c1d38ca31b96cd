"""Rests between the scans of a controller."""

import time

import pytest

from twin.cluster.base.pace import rest


@pytest.mark.parametrize(("used", "seconds"), [(0.0, 0.0), (0.1, 0.9), (5.0, 2.0)])
def test_a_controller_rests_in_proportion_to_what_its_scan_used(monkeypatch, used, seconds):
    monkeypatch.setattr(time, "thread_time", lambda: 10.0 + used)
    assert rest(10.0) == pytest.approx(seconds)
