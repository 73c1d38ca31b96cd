"""Files that only their user can read."""

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from twin.host.paths import TwinPaths
from twin.host.private_files import create_private, private_folder, write_private
from twin.world.store import Store


@pytest.fixture(autouse=True)
def _usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def _mode(file):
    return stat.S_IMODE(file.stat().st_mode)


def test_a_private_file_is_never_readable_by_others(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text("old")  # one of an earlier version, which everybody can read
    seen = []
    opened = os.fdopen

    def looking(handle, *rest, **named):
        seen.append(stat.S_IMODE(os.fstat(handle).st_mode))
        return opened(handle, *rest, **named)

    monkeypatch.setattr(os, "fdopen", looking)
    write_private(file, "secret")
    assert (seen, _mode(file), file.read_text()) == ([0o600], 0o600, "secret")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "token"
    write_private(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_private(file, "\ud800")
    assert [each.name for each in tmp_path.iterdir()] == ["token"]
    assert file.read_text() == "old"


def test_the_folder_of_a_twin_can_be_entered_by_its_user_alone(tmp_path):
    paths = TwinPaths(tmp_path / "build" / "twin")
    paths.create()
    assert (_mode(paths.root), _mode(paths.pki)) == (0o700, 0o700)
    assert _mode(tmp_path / "build") == 0o755


def test_the_folder_of_an_older_twin_is_restricted(tmp_path):
    paths = TwinPaths(tmp_path / "twin")
    paths.root.mkdir(mode=0o755)
    paths.create()
    assert _mode(paths.root) == 0o700


def test_a_folder_of_all_users_remains_theirs(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    private_folder(shared)
    assert _mode(shared) == 0o1777


def test_databases_and_what_sqlite_writes_beside_them_are_private(tmp_path):
    file = tmp_path / "cloud.db"
    file.touch(mode=0o644)
    store = Store(file)
    with store._open() as db:  # the files beside it exist while it is open
        db.execute("SELECT 1 FROM facts").fetchall()
        modes = {each.name: _mode(each) for each in tmp_path.iterdir()}
    assert modes == {"cloud.db": 0o600, "cloud.db-shm": 0o600, "cloud.db-wal": 0o600}


def test_an_existing_database_keeps_its_content(tmp_path):
    file = tmp_path / "cloud.db"
    file.write_bytes(b"content")
    create_private(file)
    assert (file.read_bytes(), _mode(file)) == (b"content", 0o600)


def test_a_database_in_use_keeps_its_locks(tmp_path: Path) -> None:
    file = tmp_path / "cloud.db"
    create_private(file)
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    create_private(file)  # as every other part of the program that opens it does
    other = (
        "import sqlite3, sys\nsqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", other, file], capture_output=True, text=True, check=False
    )
    database.close()
    assert "database is locked" in ran.stderr
