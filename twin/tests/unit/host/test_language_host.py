"""The language host loads SDKs while the engine starts policy packs, and programs after that."""

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from twin.pulumi import language_host
from twin.pulumi.language_host import LanguageHost

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
    for name in ("leave_out_debugging", "wait_in_batches"):  # they would stay for all tests
        monkeypatch.setattr(language_host, name, lambda: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return seen


def _request(folder):
    info = SimpleNamespace(program_directory=str(folder), entry_point="main.py")
    return SimpleNamespace(info=info, args=[], pwd=str(folder))


def test_a_program_waits_for_what_is_loaded_for_it(tmp_path, sdk, ran, monkeypatch):
    host = LanguageHost("")
    for _ in range(2):  # the engine may ask again
        host.GetRequiredPackages(None, None)
    loaded = host._loading.join
    monkeypatch.setattr(host._loading, "join", lambda: (sdk.set(), loaded()))
    host.Run(_request(tmp_path), None)
    assert ran == [True]


def test_a_program_of_which_nothing_was_asked_starts_at_once(tmp_path, ran):
    LanguageHost("").Run(_request(tmp_path), None)
    assert ran == [False]
