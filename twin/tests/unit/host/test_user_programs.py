"""Programs of users run in their own environment, not in that of the twin."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from twin.host.paths import REPOSITORY
from twin.pulumi import run_program, user_programs
from twin.pulumi.language_host import LanguageHost
from twin.tests.unit.host.test_warm_hosts import monitor

__all__ = ["monitor"]

pb: Any = importlib.import_module("pulumi.runtime.proto.language_pb2")
PROGRAM = """
import json, os, sys
from pathlib import Path
seen = {"python": sys.executable, "marker": os.environ.get("MARKER"), "path": sys.path[0]}
seen["virtual"] = os.environ.get("VIRTUAL_ENV")
Path("seen.json").write_text(json.dumps(seen))
"""


class Context:
    """The context of an engine's call."""

    def add_callback(self, _callback) -> bool:
        return True

    def abort(self, code, message):
        raise RuntimeError(f"{code.name}: {message}")


@pytest.fixture
def project(tmp_path):
    """A program of a user."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: mine\nruntime: python\n")
    (folder / "__main__.py").write_text(PROGRAM)
    return folder


def environment(folder, arguments="", marker="mine"):
    """Make an environment whose interpreter is this one, with a mark."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("")
    python.write_text(
        f'#!/bin/sh\nexport MARKER={marker}\nexec "{sys.executable}" {arguments} "$@"\n'
    )
    python.chmod(0o755)
    return folder


def request_of(project, monitor="", **options):
    """Return the request of an engine to run a program."""
    where = str(project)
    info = pb.ProgramInfo(program_directory=where, root_directory=where, entry_point=".")
    info.options.update(options)
    return pb.RunRequest(pwd=where, info=info, monitor_address=monitor, stack="it", project="mine")


@pytest.fixture
def printed(monkeypatch):
    """What the engine is made to print."""
    lines: list[str] = []
    monkeypatch.setattr(user_programs, "report", lambda _engine, message: lines.append(message))
    return lines


def ran(project, monitor, printed, **options):
    """Run a program, and return what it saw."""
    answer = LanguageHost("").Run(request_of(project, monitor, **options), Context())
    assert (printed, answer.bail, answer.error) == ([], False, "")
    return json.loads((project / "seen.json").read_text())


def test_a_program_runs_in_the_virtual_environment_that_it_names(project, monitor, printed):
    environment(project / "venv")
    seen = ran(project, monitor, printed, toolchain="pip", virtualenv="venv")
    assert seen["marker"] == "mine"
    assert seen["path"] == str(project)
    assert seen["virtual"] == str(project / "venv")


def test_a_program_that_names_none_runs_in_the_active_one(
    project, monitor, printed, tmp_path, monkeypatch
):
    monkeypatch.setenv("VIRTUAL_ENV", str(environment(tmp_path / "active")))
    assert ran(project, monitor, printed)["marker"] == "mine"


def test_without_an_active_environment_the_python_on_path_counts(project, tmp_path):
    programs = environment(tmp_path / "other") / "bin"
    (programs / "python3").symlink_to("python")
    info = request_of(project).info
    found = user_programs.interpreter(info, {"PATH": f"{programs}:/usr/bin"})
    assert found == str(programs / "python3")
    gone = {"PATH": str(programs), "VIRTUAL_ENV": str(tmp_path / "gone")}
    assert user_programs.interpreter(info, gone) == str(programs / "python3")
    assert user_programs.interpreter(info, {"PATH": str(tmp_path)}) == sys.executable


def test_an_environment_that_does_not_exist_is_named(project, printed):
    answer = LanguageHost("").Run(request_of(project, virtualenv="venv"), Context())
    assert answer.bail
    assert printed == [
        "runtime.options.virtualenv: must be a virtual environment, there is no "
        f"{project}/venv/bin/python; run pulumi install"
    ]


def test_an_environment_without_the_sdk_is_named(project, printed):
    environment(project / "venv", "-S")
    answer = LanguageHost("").Run(request_of(project, virtualenv="venv"), Context())
    assert answer.bail
    assert printed == [
        f"{project}/venv/bin/python: must have the package pulumi, which the program needs; run "
        "pulumi install, or pip install it there"
    ]


def test_a_program_that_kills_itself_is_reported(project, monitor, printed):
    environment(project / "venv")
    (project / "__main__.py").write_text("import os\nos._exit(7)\n")
    answer = LanguageHost("").Run(request_of(project, monitor, virtualenv="venv"), Context())
    assert answer.bail
    assert printed == [
        f"the program ended with exit code 7; {project}/venv/bin/python ran it",
    ]


def test_a_program_that_the_engine_cancels_ends_without_a_report(project, monitor, printed):
    environment(project / "venv")
    (project / "__main__.py").write_text("import time\ntime.sleep(60)\n")

    class Cancelling(Context):
        def add_callback(self, _callback):
            threading.Timer(0.2, _callback).start()
            return True

    begun = time.monotonic()
    answer = LanguageHost("").Run(request_of(project, monitor, virtualenv="venv"), Cancelling())
    assert answer.bail
    assert printed == []
    assert time.monotonic() - begun < 30


def test_a_program_of_a_call_that_has_ended_is_not_left_behind(project, monitor, printed):
    environment(project / "venv")
    (project / "__main__.py").write_text("import time\ntime.sleep(60)\n")

    class Ended(Context):
        def add_callback(self, _callback):
            return False

    assert LanguageHost("").Run(request_of(project, monitor, virtualenv="venv"), Ended()).bail
    assert printed == []


def test_a_program_ends_with_its_host(project):
    environment(project / "venv")
    script = f"import subprocess, sys\nsubprocess.Popen([{str(project / 'venv/bin/python')!r}, "
    script += f"{run_program.__file__!r}], stdin=subprocess.PIPE, stdout=sys.stdout)\n"
    script += "print(flush=True)\nimport time\ntime.sleep(0.5)\n"
    # the output is closed when the program has ended as well
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=30, check=False
    )
    assert ended.returncode == 0


def test_the_program_of_this_repository_is_known_in_any_checkout(project):
    for folder, is_own in ((REPOSITORY, True), (project, False), (project / "none", False)):
        assert user_programs.is_own(pb.ProgramInfo(root_directory=str(folder))) is is_own


def install(project, *, is_plugin=False, **options):
    """Run `pulumi install`, or `pulumi plugin install`; return what it prints."""
    info = request_of(project, **options).info
    request = pb.InstallDependenciesRequest(info=info, is_plugin=is_plugin)
    return b"".join(
        each.stdout for each in LanguageHost("").InstallDependencies(request, Context())
    )


@pytest.mark.needs_tools  # pip installs itself first, which takes eight seconds
def test_an_installation_makes_the_environment_that_a_program_names(project):
    (project / "requirements.txt").write_text("# none\n")
    install(project, toolchain="pip", virtualenv="venv")
    python = project / "venv" / "bin" / "python"
    prefix = subprocess.run(
        [python, "-c", "import sys; print(sys.prefix)"], capture_output=True, check=True
    )
    assert prefix.stdout.decode().strip() == str(project / "venv")


def test_an_installation_that_fails_says_which_program_did(project):
    environment(project / "venv")
    (project / "venv" / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    (project / "requirements.txt").write_text("")
    with pytest.raises(RuntimeError) as failed:
        install(project, virtualenv="venv")
    assert str(failed.value) == (
        f"FAILED_PRECONDITION: {project}/venv/bin/python -m pip install "
        "--disable-pip-version-check -r requirements.txt: ended with exit code 1"
    )


@pytest.mark.parametrize(
    ("manifest", "installed"),
    [
        ('[build-system]\nrequires = ["hatchling"]\n', b"."),
        ("[tool.other]\n", b"-r requirements.txt"),
    ],
)
def test_a_plugin_that_names_no_environment_has_one_with_its_package(project, manifest, installed):
    environment(project / "venv")
    (project / "venv" / "bin" / "python").write_text('#!/bin/sh\necho "$@"\n')
    (project / "pyproject.toml").write_text(manifest)
    if installed != b".":
        (project / "requirements.txt").write_text("")
    printed = install(project, is_plugin=True)
    assert printed == b"-m pip install --disable-pip-version-check " + installed + b"\n"
    assert install(project) == b""  # a program that names none runs in the active one


def test_another_tool_than_pip_is_refused(project):
    with pytest.raises(RuntimeError, match=r"must be pip on the twin, got 'uv'; create .*/venv"):
        install(project, toolchain="uv", virtualenv="venv")


def test_nothing_is_installed_for_the_program_of_this_repository(tmp_path):
    shutil.copy(REPOSITORY / "Pulumi.yaml", tmp_path)
    assert install(tmp_path, toolchain="pip", virtualenv=".venv") == b""
    assert os.listdir(tmp_path) == ["Pulumi.yaml"]
