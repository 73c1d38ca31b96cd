"""What `make` says about a Python before anything is installed."""

import os
import subprocess
import sys

import pytest

from scripts.develop.before_setup import problem, supported
from scripts.develop.doctor_checks import PYTHON_VERSIONS
from twin.host.paths import REPOSITORY


def test_the_set_up_the_doctor_and_the_package_support_the_same_versions_of_python():
    oldest, newest = supported()
    assert ((3, oldest), (3, newest)) == PYTHON_VERSIONS


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_an_unsupported_python_is_named_with_the_way_to_a_supported_one(version):
    found = ".".join(map(str, version))
    assert problem(version, [], "/usr/bin/python3") == (
        f"needs Python 3.11 to 3.13, found {found} (/usr/bin/python3). Install one (Debian: apt "
        "install python3.13-venv; or: uv python install 3.13), then run: make PYTHON=python3.13 up"
    )


def test_a_python_without_venv_is_named_with_the_package_that_has_it():
    assert problem((3, 12), ["ensurepip"], "python3") == (
        "Python 3.12 (python3) must have the modules venv and ensurepip, missing ensurepip. "
        "Install them (Debian: apt install python3.12-venv)"
    )


def test_the_check_needs_no_package_and_no_folder_of_its_own(tmp_path):
    script = REPOSITORY / "scripts" / "develop" / "before_setup.py"
    ended = subprocess.run(
        [sys.executable, "-I", "-S", script], cwd=tmp_path, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"]}, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "can be used" in ended.stdout
