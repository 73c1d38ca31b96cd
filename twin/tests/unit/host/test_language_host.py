"""The language host loads SDKs while the engine starts policy packs, and programs after that."""

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from twin.host.paths import REPOSITORY
from twin.pulumi import language_host
from twin.pulumi.language_host import LanguageHost, interpreter

SDK = "an_sdk_of_this_test"


@pytest.fixture
def sdk(tmp_path, monkeypatch):
    """A package that is loaded when `finish` is set, as slow as an SDK."""
    finish = threading.Event()
    gate: Any = SimpleNamespace(finish=finish)
    monkeypatch.setitem(sys.modules, f"{SDK}_gate", gate)
    (tmp_path / f"{SDK}.py").write_text(
        f"import {SDK}_gate as gate\nassert gate.finish.wait(30)\nDONE = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(language_host, "_LARGE", ("no_such_sdk", SDK))
    yield finish
    finish.set()
    sys.modules.pop(SDK, None)


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Whether the SDK was loaded when each program began."""
    seen: list[bool] = []

    class Server:
        def __init__(self, program):
            pass

        def Run(self, request, context):
            seen.append(hasattr(sys.modules.get(SDK), "DONE"))
            return SimpleNamespace(error="")

    monkeypatch.setattr(language_host._automation, "LanguageServer", Server)
    monkeypatch.setattr(language_host, "speed_up_program", lambda **_: None)  # it would stay
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return seen


def _request(folder):
    """A request to run this repository's program in a folder."""
    (folder / "Pulumi.yaml").write_text("name: gke-inference\nruntime: python\n")
    info = SimpleNamespace(
        program_directory=str(folder), entry_point="main.py", root_directory=str(folder)
    )
    return SimpleNamespace(info=info, args=[], pwd=str(folder))


def test_a_program_waits_for_what_is_loaded_for_it(tmp_path, sdk, ran, monkeypatch):
    host = LanguageHost("")
    for _ in range(2):  # the engine may ask again
        host.GetRequiredPackages(_request(tmp_path), None)
    loaded = host._loading.join
    monkeypatch.setattr(host._loading, "join", lambda: (sdk.set(), loaded()))
    host.Run(_request(tmp_path), None)
    assert ran == [True]


def test_a_program_of_which_nothing_was_asked_starts_at_once(tmp_path, ran):
    LanguageHost("").Run(_request(tmp_path), None)
    assert ran == [False]


class Context:
    """The context of an engine's call, which receives errors."""

    def add_callback(self, _callback):
        return True

    def abort(self, code, message):
        raise RuntimeError(f"{code.name}: {message}")


def _plugin(folder, **options):
    """A request to run a policy pack or plugin in a folder."""
    info = language_host._language_pb2.ProgramInfo(
        root_directory=str(folder), program_directory=str(folder), entry_point="."
    )
    info.options.update(options)
    return language_host._language_pb2.RunPluginRequest(
        pwd=str(folder), info=info, kind="resource", args=["engine"]
    )


def _output(request):
    answers = list(LanguageHost("").RunPlugin(request, Context()))
    return b"".join(each.stdout for each in answers).decode(), answers[-1].exitcode


@pytest.fixture
def pack(tmp_path):
    """A plugin that prints which interpreter runs it, and with what."""
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "__main__.py").write_text("import sys\nprint(sys.executable, *sys.argv[1:])\n")
    return folder


def test_a_plugin_runs_with_this_interpreter(pack):
    assert _output(_plugin(pack)) == (f"{sys.executable} engine\n", 0)


def test_a_plugin_runs_with_the_virtual_environment_that_it_names(pack):
    python = pack.parent / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho chosen\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    output, code = _output(_plugin(pack, toolchain="pip", virtualenv="../venv"))
    assert (output.splitlines()[0], code) == ("chosen", 0)


def test_an_installed_plugin_runs_in_its_own_environment_and_a_policy_pack_does_not(pack):
    python = pack / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho own\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    assert _output(_plugin(pack))[0].splitlines()[0] == "own"
    assert interpreter(_plugin(pack).info) == sys.executable


def test_a_virtual_environment_that_is_not_there_is_named(pack):
    with pytest.raises(RuntimeError) as failed:
        _output(_plugin(pack, virtualenv="../venv"))
    assert str(failed.value) == (
        f"FAILED_PRECONDITION: {pack}: virtualenv: must be a virtual environment, "
        f"there is no {pack}/../venv/bin/python"
    )


def test_the_policy_pack_names_the_environment_of_the_project():
    def virtualenv(file):
        return yaml.safe_load((REPOSITORY / file).read_text())["runtime"]["options"]["virtualenv"]

    project, pack = virtualenv("Pulumi.yaml"), virtualenv("policies/PulumiPolicy.yaml")
    assert REPOSITORY / project == (REPOSITORY / "policies" / pack).resolve()
