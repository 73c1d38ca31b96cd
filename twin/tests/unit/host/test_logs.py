"""Log files of a twin do not grow indefinitely."""

import subprocess
import time

from twin.host.paths import TwinPaths
from twin.logs import cap, logs_of
from twin.world.events import Events


def test_a_small_log_is_left_alone(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("short")
    assert cap(log, limit=100) is False
    assert log.read_text() == "short"
    assert cap(tmp_path / "none.log") is False


def test_a_large_log_is_emptied_and_its_end_kept(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("x" * 200 + "the end")
    assert cap(log, limit=100, kept=7) is True
    assert log.read_text() == ""
    assert (tmp_path / "a.log.1").read_text() == "the end"


def test_a_program_that_appends_goes_on_at_the_new_end(tmp_path):
    log = tmp_path / "a.log"
    with log.open("ab") as output:
        script = "echo first line; read go; echo second"
        process = subprocess.Popen(
            ["sh", "-c", script], stdin=subprocess.PIPE, stdout=output, text=True
        )
    until = time.monotonic() + 5
    while log.stat().st_size == 0 and time.monotonic() < until:
        time.sleep(0.01)
    assert cap(log, limit=1) is True
    process.communicate("go\n", timeout=5)
    assert log.read_text() == "second\n"


def test_logs_of_processes_pods_and_gateways_are_found(tmp_path):
    paths = TwinPaths(tmp_path)
    paths.create()
    logs = paths.cluster("us-east5", "c") / "logs"
    files = [paths.logs / "daemon.log", logs / "pods" / "p.log", logs / "g.access.jsonl"]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert set(logs_of(paths)) == set(files)


def test_a_timeline_that_was_put_aside_is_still_read(tmp_path):
    events = Events(tmp_path / "events.jsonl")
    events.emit("k", "before", "m")
    events.rotate(limit=10)
    events.emit("k", "after", "m")
    assert [event["subject"] for event in events.read()] == ["before", "after"]
    events.rotate(limit=10)
    assert [event["subject"] for event in events.read()] == ["after"]


def test_a_line_that_was_cut_short_hides_no_other_event(tmp_path):
    events = Events(tmp_path / "events.jsonl")
    events.emit("k", "one", "m")
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"time": 1, "ki\n')
    events.emit("k", "two", "m")
    assert [event["subject"] for event in events.read()] == ["one", "two"]
