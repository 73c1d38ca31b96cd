"""Which daemon a command uses: one that runs the same code, whichever checkout started it."""

import os
import shutil
from pathlib import Path

import pytest

from twin.daemon import code_digest


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "tests" / "one" / "twin"  # tests are left out below this folder only
    (folder / "world").mkdir(parents=True)
    (folder / "daemon.py").write_text("PORT = 1\n")
    (folder / "world" / "store.py").write_text("ROWS = 2\n")
    return folder


def test_equal_code_in_two_checkouts_is_the_same(code: Path, tmp_path: Path):
    other = shutil.copytree(code, tmp_path / "two" / "twin")
    os.utime(other / "daemon.py", (1, 1))
    (other / "tests").mkdir()
    (other / "tests" / "test_store.py").write_text("")
    assert code_digest(other) == code_digest(code)


def test_a_changed_a_moved_and_a_new_file_are_other_code(code: Path):
    found = [code_digest(code)]
    (code / "daemon.py").write_text("PORT = 3\n")
    found.append(code_digest(code))
    (code / "daemon.py").rename(code / "world" / "daemon.py")
    found.append(code_digest(code))
    (code / "new.py").write_text("")
    found.append(code_digest(code))
    assert len(set(found)) == 4
