"""Which daemon a command uses: one that runs the same code, whichever checkout started it."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from twin import daemon
from twin.daemon import code_digest
from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths


@pytest.fixture
def code(tmp_path: Path) -> Path:
    checkout = tmp_path / "tests" / "one"  # tests are left out below this folder only
    (checkout / "twin" / "world").mkdir(parents=True)
    (checkout / "simulator").mkdir()
    (checkout / "twin" / "daemon.py").write_text("PORT = 1\n")
    (checkout / "twin" / "world" / "store.py").write_text("ROWS = 2\n")
    (checkout / "twin" / "rules.yaml").write_text("- id: a\n")
    (checkout / "simulator" / "server.py").write_text("")
    return checkout


def test_equal_code_in_two_checkouts_is_the_same(code: Path, tmp_path: Path):
    other = shutil.copytree(code, tmp_path / "two")
    os.utime(other / "twin" / "daemon.py", (1, 1))
    (other / "twin" / "tests").mkdir()
    (other / "twin" / "tests" / "test_store.py").write_text("")
    (other / "README.md").write_text("")
    assert code_digest(other) == code_digest(code)


def test_a_changed_a_moved_and_a_new_file_are_other_code(code: Path):
    found = [code_digest(code)]
    (code / "twin" / "daemon.py").write_text("PORT = 3\n")
    found.append(code_digest(code))
    (code / "twin" / "daemon.py").rename(code / "twin" / "world" / "daemon.py")
    found.append(code_digest(code))
    (code / "twin" / "new.py").write_text("")
    found.append(code_digest(code))
    (code / "twin" / "rules.yaml").write_text("- id: b\n")
    found.append(code_digest(code))
    (code / "simulator" / "server.py").write_text("PORT = 4\n")
    found.append(code_digest(code))
    assert len(set(found)) == 6


def test_a_daemon_whose_checkout_was_removed_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(processes, "pid_of", lambda *_: os.getpid())
    checkout, paths = tmp_path / "checkout", TwinPaths(tmp_path / "twin")
    for folder in (checkout, paths.root):
        folder.mkdir()
    ports = {"gcp": 1, "kubernetes": 2}
    about = {"code": code_digest(REPOSITORY), "checkout": str(checkout)}
    assert daemon.other_code(paths) is None, "there is none"
    paths.daemon_file.write_text(json.dumps({**ports, **about}))
    assert (daemon.ports(paths), daemon.other_code(paths)) == (ports, None)
    checkout.rmdir()
    assert (daemon.ports(paths), daemon.other_code(paths)) == (None, str(checkout))


def test_a_new_daemon_is_used_although_its_code_was_edited_while_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    paths = TwinPaths(tmp_path / "twin")
    paths.root.mkdir()
    ports = {"gcp": 1, "kubernetes": 2}

    def start(*_: object) -> SimpleNamespace:
        about = {"code": "of a later edit", "checkout": str(REPOSITORY)}
        paths.daemon_file.write_text(json.dumps({**ports, **about}))
        return SimpleNamespace(poll=lambda: None)

    monkeypatch.setattr(daemon, "prepare", lambda *_: None)
    monkeypatch.setattr(daemon, "_START_SECONDS", 1)
    monkeypatch.setattr(processes, "pid_of", lambda *_: os.getpid())
    monkeypatch.setattr(processes, "start", start)
    monkeypatch.setattr(processes, "stop", lambda *_: None)
    assert daemon.ensure(paths) == ports
    assert daemon.ports(paths) is None
