"""Additions of the drawing to the timeline: earlier objects, and responses to a client."""

from twin.drawings.svg import embedded
from twin.drawings.timeline import drawing
from twin.drawings.timeline_svg import CLIENT, client_bars, save, with_what_was_there


def event(time, kind, subject, message="m", **fields):
    return {"time": 1000.0 + time, "kind": kind, "subject": subject, "message": message, **fields}


TPU = {"compute_class": "chat-tpu", "machine": "ct6e-standard-4t"}
WITHDRAWN = [
    event(0, "answer.ok", "chat-tpu-5d4f9-x7k2p"),
    event(5, "scenario.step", "s", "the reservation is withdrawn"),
    event(6, "node.notice", "n1"),
    event(6.5, "answer.refused", "chat", "HTTP 503"),
    event(7, "engine.stopped", "llm/chat-tpu-5d4f9-x7k2p"),
    event(8, "node.removed", "n1", **TPU),
    event(9, "answer.ok", "chat-gpu-77aaa-bbbbb"),
    event(9.5, "answer.ok", "chat-gpu-77aaa-ccccc"),
    event(12, "node.requested", "n2", **TPU, provisioning="reservation"),
    event(14, "node.ready", "n2", **TPU, provisioning="reservation"),
]


def test_a_node_that_stood_before_the_first_event_is_drawn_from_the_start():
    bars = [bar for bar in drawing(with_what_was_there(WITHDRAWN)).bars if bar.label == "n1"]
    assert [(bar.kind, bar.start, bar.end) for bar in bars] == [
        ("node", 0.0, 6.0),
        ("leaving", 6.0, 8.0),
    ]


def test_a_node_that_stood_there_shares_the_lane_of_its_successor():
    found = drawing(with_what_was_there(WITHDRAWN))
    lanes = {bar.lane for bar in found.bars if bar.label in {"n1", "n2"}}
    assert lanes == {"chat-tpu ct6e-standard-4t reservation"}


def test_a_pod_that_served_before_the_first_event_is_drawn_until_its_engine_stops():
    bars = [bar for bar in drawing(with_what_was_there(WITHDRAWN)).bars if "pods" in bar.lane]
    assert [(bar.kind, bar.start, bar.end) for bar in bars] == [("ready", 0.0, 7.0)]


def test_a_node_that_came_and_went_is_not_taken_for_one_that_stood_there():
    events = [event(0, "node.requested", "n", **TPU), event(3, "node.removed", "n", **TPU)]
    assert with_what_was_there(events) == events


def test_the_client_sees_workloads_and_refusals_in_turn():
    bars = client_bars(WITHDRAWN)
    assert [(bar.label, bar.kind, bar.start, bar.end) for bar in bars] == [
        ("chat-tpu", "answered", 0.0, 6.5),
        ("refused", "refused", 6.5, 9.0),
        ("chat-gpu", "answered", 9.0, 14.0),
    ]


def test_without_a_client_there_is_no_lane_of_one():
    assert client_bars([event(0, "node.ready", "n")]) == []


def test_the_drawing_names_who_answered_and_explains_its_colours(tmp_path):
    file = tmp_path / "timeline.svg"
    save(WITHDRAWN, 100, file, title="tpu-stockout")
    text = file.read_text()
    for words in ("tpu-stockout", "chat-gpu", CLIENT, "refused", "the reservation is withdrawn"):
        assert words in text


def test_a_drawing_is_dark_on_a_dark_page_unless_the_page_decides(tmp_path):
    file = tmp_path / "timeline.svg"
    save(WITHDRAWN, 100, file)
    assert file.read_text().count("prefers-color-scheme:dark") == 1
    assert "prefers-color-scheme" not in embedded(file)


def test_the_same_events_draw_the_same_file(tmp_path):
    for name in ("one", "two"):
        save(WITHDRAWN, 100, tmp_path / f"{name}.svg")
    assert (tmp_path / "one.svg").read_text() == (tmp_path / "two.svg").read_text()
