import re
import threading
import time

import pytest

from twin.host.paths import REPOSITORY, TwinPaths
from twin.providers.gcp.schema import resource
from twin.world.events import Events
from twin.world.rules import RULES_FILE, Rules, all_rules


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


def _sources():
    folder = REPOSITORY / "twin"
    files = [file for suffix in ("py", "yaml") for file in folder.rglob(f"*.{suffix}")]
    return "\n".join(file.read_text() for file in files if file != RULES_FILE)


def _is_read(rule_id, sources):
    composed = re.match(r"cloud\.(create|update|delete)\b|node\.create\.(cpu|gpu|tpu)$", rule_id)
    return composed is not None or f'"{rule_id}"' in sources


def test_every_rule_is_read_by_code_or_names_the_file_that_does_what_it_says():
    sources = _sources()
    for rule in all_rules().values():
        if rule.where:
            assert (REPOSITORY / rule.where).is_file(), rule.id
        else:
            assert _is_read(rule.id, sources), f"{rule.id}: no code reads it"


def test_every_rule_that_code_names_exists():
    areas = "|".join(sorted({rule_id.split(".")[0] for rule_id in all_rules()}))
    called = rf'(?:seconds|scaled|value)\(\s*"((?:{areas})\.[^"]+)"|all_rules\(\)\["([^"]+)"\]'
    mentioned = rf"rules? `?((?:{areas})\.[a-z][a-z0-9./-]*[a-z0-9])\b"
    sources = _sources()
    named = {a or b for a, b in re.findall(called, sources)}
    assert "hpa.sync" in named
    named |= set(re.findall(mentioned, sources))
    assert named <= set(all_rules()), named - set(all_rules())


def test_durations_of_creations_are_for_resources_the_provider_has():
    for rule_id in all_rules():
        match = re.match(r"cloud\.(?:create|update|delete)\.([a-z]+/[A-Za-z]+)", rule_id)
        if match:
            token = match[1].split("/")
            name = token[1][0].upper() + token[1][1:]
            assert resource(f"gcp:{match[1]}:{name}") is not None, rule_id


def test_a_duration_is_divided_by_the_speed_the_twin_was_started_with(tmp_path):
    paths = TwinPaths(tmp_path)
    paths.settings_file.write_text('{"speed": 30}')
    rules = Rules.of(paths)
    assert rules.seconds("hpa.sync") == 15
    assert rules.scaled("hpa.sync") == pytest.approx(0.5)


def test_an_unknown_rule_is_an_error_with_its_name():
    with pytest.raises(KeyError, match=r"no\.such"):
        Rules().scaled("no.such")
