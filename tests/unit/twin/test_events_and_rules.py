import threading
import time

import pytest

from twin.events import Events
from twin.paths import TwinPaths
from twin.rules import Rules, all_rules


def test_events_of_many_writers_stay_whole_and_in_order(tmp_path):
    events = Events(tmp_path / "events.jsonl")
    writers = [
        threading.Thread(
            target=lambda n=n: [events.emit("k", f"s{n}", "m" * 500, n=i) for i in range(50)]
        )
        for n in range(8)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = events.read()
    assert len(found) == 400
    for n in range(8):
        assert [event["n"] for event in found if event["subject"] == f"s{n}"] == list(range(50))


def test_events_can_be_read_from_a_moment_on(tmp_path):
    events = Events(tmp_path / "events.jsonl")
    events.emit("node.ready", "a", "first")
    moment = time.time()
    events.emit("node.ready", "b", "second")
    assert [event["subject"] for event in events.read(since=moment)] == ["b"]


def test_a_timeline_that_was_never_written_is_empty(tmp_path):
    assert Events(tmp_path / "none.jsonl").read() == []


def test_every_rule_has_a_source_a_date_and_a_known_confidence():
    for rule in all_rules().values():
        assert rule.source, rule.id
        assert rule.date, rule.id
        assert rule.confidence in ("documented", "observed", "assumed"), rule.id
        assert rule.text.strip(), rule.id


def test_a_duration_is_divided_by_the_speed_the_twin_was_started_with(tmp_path):
    paths = TwinPaths(tmp_path)
    paths.settings_file.write_text('{"speed": 30}')
    rules = Rules.of(paths)
    assert rules.seconds("hpa.sync") == 15
    assert rules.scaled("hpa.sync") == pytest.approx(0.5)


def test_an_unknown_rule_is_an_error_with_its_name():
    with pytest.raises(KeyError, match=r"no\.such"):
        Rules().scaled("no.such")
