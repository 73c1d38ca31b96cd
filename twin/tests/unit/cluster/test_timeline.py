"""The timeline as a drawing."""

import itertools
import xml.etree.ElementTree as ET

import pytest

from twin.drawings.timeline import clock, drawing, workload_of
from twin.drawings.timeline_svg import rows_of, save


def event(time, kind, subject, message="m", **fields):
    return {"time": 1000.0 + time, "kind": kind, "subject": subject, "message": message, **fields}


NODE = {"compute_class": "chat-tpu", "machine": "ct6e-standard-4t", "provisioning": "reservation"}
EVENTS = [
    event(0, "node.requested", "n1", **NODE),
    event(2, "node.ready", "n1", **NODE),
    event(1, "pod.pending", "llm/chat-tpu-5d4f9-x7k2p"),
    event(3, "pod.ready", "llm/chat-tpu-5d4f9-x7k2p"),
    event(4, "scenario.step", "s", "the reservation is withdrawn"),
    event(5, "node.notice", "n1"),
    event(6, "node.removed", "n1", **NODE),
    event(6.5, "rung.stockout", "r", "none"),
    event(7, "rung.cooldown", "r", compute_class="chat-tpu", seconds=3.0),
]


def test_a_node_is_drawn_from_request_to_removal():
    found = [bar for bar in drawing(EVENTS).bars if bar.label == "n1"]
    assert [(bar.kind, bar.start, bar.end) for bar in found] == [
        ("creating", 0.0, 2.0),
        ("node", 2.0, 5.0),
        ("leaving", 5.0, 6.0),
    ]
    assert {bar.lane for bar in found} == {"chat-tpu ct6e-standard-4t reservation"}


def test_a_pod_waits_then_serves():
    found = [bar for bar in drawing(EVENTS).bars if bar.lane == "pods of chat-tpu"]
    assert [(bar.kind, bar.start, bar.end) for bar in found] == [
        ("pending", 1.0, 3.0),
        ("ready", 3.0, 7.0),
    ]


def test_a_drawing_is_as_long_as_its_last_bar():
    assert drawing(EVENTS).length == 10.0
    assert drawing([]).length == 0.0


def test_bars_of_one_row_do_not_overlap():
    bars = [event(number, "node.ready", f"n{number}", **NODE) for number in range(5)]
    for rows in rows_of(drawing(bars)).values():
        for row in rows:
            assert all(one.end <= two.start for one, two in itertools.pairwise(row))


def test_the_drawing_is_svg_with_the_speed_and_the_steps_in_it(tmp_path):
    file = tmp_path / "out" / "timeline.svg"
    save(EVENTS, 100, file)
    assert ET.parse(file).getroot().tag.endswith("svg")  # noqa: S314 - written a line above


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (61, "1:01"), (3725, "1:02:05")])
def test_durations_are_read_like_a_clock(seconds, text):
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("pod", "workload"),
    [("ns/chat-tpu-5d4f9-x7k2p", "pods of chat-tpu"), ("ns/single", "pods of single")],
)
def test_a_pod_belongs_to_the_workload_its_name_starts_with(pod, workload):
    assert workload_of(pod) == workload
