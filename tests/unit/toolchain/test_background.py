"""Tools prepared beside other work, by a stand-in for the process that prepares them."""

import sys
import threading

import pytest

from twin.toolchain import __main__ as process
from twin.toolchain import background
from twin.toolchain.cache import folder_of, locked
from twin.toolchain.registry import ToolError, module_of, modules, needed_by


@pytest.fixture
def started(cache, monkeypatch):
    """Return what was started: names of modules; each process ends at once with `code`."""
    calls = []
    code = {"value": 0}
    real = background.subprocess.Popen

    def popen(argv, **options):
        calls.append(argv[3:])
        return real([sys.executable, "-c", f"raise SystemExit({code['value']})"], **options)

    monkeypatch.setattr(background.subprocess, "Popen", popen)
    monkeypatch.setattr(background, "_started", {})
    yield calls, code
    for child in background._started.values():
        child.wait()


def put(name):
    folder = folder_of(modules()[name])
    (folder / "bin").mkdir(parents=True)
    (folder / ".complete").write_text("{}")


def test_a_program_that_is_missing_is_prepared_once(started, cache):
    for _ in range(2):
        with pytest.raises(ToolError) as pending:
            background.obtain("pd-epp")
        assert str(pending.value) == (
            f"pd-epp v1.2.0 is being prepared: see {cache / 'background.log'}"
        )
    assert started[0] == [["picker"]]
    put("picker")
    assert background.obtain("pd-epp") == folder_of(module_of("pd-epp")) / "bin" / "pd-epp"


def test_what_another_process_prepares_is_left_to_it(started):
    with locked(f"background-{modules()['lws'].key}"):
        assert background.prepare_beside([modules()["lws"], modules()["picker"]])
    assert started[0] == [["picker"]]


def test_what_failed_is_not_tried_again_and_names_the_log(started, cache):
    started[1]["value"] = 2
    background.prepare_beside([modules()["lws"]])
    background._started["lws"].wait()
    with pytest.raises(ToolError) as failed:
        background.obtain("lws")
    assert str(failed.value) == (
        f"lws cannot be prepared: see {cache / 'background.log'}, "
        "then run `gke-inference tools --only lws`"
    )
    assert started[0] == [["lws"]]


def test_a_controller_waits_until_its_tools_are_there(started, monkeypatch):
    monkeypatch.setattr(background, "_WAIT_SECONDS", 0.01)
    stop = threading.Event()
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(background.wait_for("monitoring", stop))
    )
    waiting.start()
    for module in needed_by("monitoring"):
        assert answers == []
        put(module.name)
    waiting.join(10)
    assert answers == [True]


def test_a_wait_ends_when_the_controller_is_stopped(started):
    stop = threading.Event()
    stop.set()
    assert background.wait_for("monitoring", stop) is False


def test_the_process_reports_its_error_and_exits_with_two(cache, monkeypatch, capsys):
    monkeypatch.setattr(process.os, "nice", lambda by: None)

    def fail(wanted, announce, report):
        announce("lws", 0, 1, "downloading sources")
        announce("lws", 1, 2, "downloading sources")
        raise ToolError("no such version")

    monkeypatch.setattr(process, "provide", fail)
    with pytest.raises(SystemExit) as ended:
        process.main(["lws"])
    assert ended.value.code == 2
    assert capsys.readouterr().out == "lws: downloading sources\nerror: no such version\n"
