"""Modules of SDKs with postponed annotations: the same types, without making them at loading."""

import importlib
import os
import re
import sys
import typing
from importlib.util import cache_from_source, module_from_spec, spec_from_loader
from typing import Any

import pytest

from twin.pulumi.speedups import sdk_annotations

_types: Any = importlib.import_module("pulumi._types")
PACKAGE = "an_annotated_sdk"
SOURCE = """
from typing import Optional
class Network:
    mtu: Optional['Size'] = None
class Size: ...
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    """The only module of a package, which no test has imported yet."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "network.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sdk_annotations, "_MODULES", re.compile(rf"{PACKAGE}\..*"))
    sdk_annotations.postpone_annotations()
    yield folder / "network.py"
    _forget()


def _forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def _loaded():
    _forget()
    return importlib.import_module(f"{PACKAGE}.network")


def _compiled(monkeypatch):
    """Return the files that are compiled from now on."""
    files: list[str] = []

    def noted(content, file, *args, **kwargs):
        files.append(file)
        return compile(content, file, *args, **kwargs)

    monkeypatch.setitem(vars(sdk_annotations), "compile", noted)
    return files


@pytest.mark.usefixtures("source")
def test_an_annotation_is_a_text_until_it_is_asked_for():
    network = _loaded()
    assert network.Network.__annotations__ == {"mtu": "Optional['Size']"}
    assert typing.get_type_hints(network.Network) == {"mtu": network.Size | None}


def test_a_module_is_compiled_once_and_again_when_its_source_changes(source, monkeypatch):
    files = _compiled(monkeypatch)
    _loaded()
    _loaded()
    assert files == [str(source)]
    source.write_text(SOURCE + "PORT = 80\n")
    assert _loaded().PORT == 80
    os.utime(source, (1, 1))
    _loaded()
    assert files == [str(source)] * 3


def test_the_interpreters_own_bytecode_is_not_used_or_replaced(source):
    own = cache_from_source(str(source))
    _loaded()
    assert not os.path.exists(own)
    sys.meta_path[:] = [
        each for each in sys.meta_path if not isinstance(each, sdk_annotations._Finder)
    ]
    network = _loaded()
    assert os.path.exists(own)
    assert not isinstance(network.Network.__annotations__["mtu"], str)


@pytest.mark.parametrize("content", [b"", b"\0" * 40])
def test_a_bytecode_file_that_is_damaged_is_written_again(source, monkeypatch, content):
    _loaded()
    (cached,) = source.parent.glob("__pycache__/network*")
    cached.write_bytes(cached.read_bytes()[:12] + content)
    files = _compiled(monkeypatch)
    assert _loaded().Network
    assert _loaded().Network
    assert files == [str(source)]


def test_a_folder_that_cannot_be_written_is_no_error(source):
    (source.parent / "__pycache__").write_text("a file")
    assert _loaded().Network


@pytest.mark.parametrize(
    "name",
    [
        "pulumi_gcp.artifactregistry._inputs",
        "pulumi_gcp.artifactregistry.outputs",
        "pulumi_gcp.artifactregistry.repository",
        "pulumi_kubernetes.apps.v1._inputs",
        "pulumi_kubernetes.apps.v1.outputs",
        "pulumi_kubernetes.apps.v1.Deployment",
    ],
)
def test_the_sdk_finds_the_names_and_types_that_it_finds_in_the_module_as_it_is(name):
    plain = importlib.import_module(name)
    loader = sdk_annotations.PostponedLoader(name, plain.__file__ or "")
    spec = spec_from_loader(name, loader)
    assert spec is not None
    postponed = module_from_spec(spec)
    loader.exec_module(postponed)
    classes = [each for each in vars(plain).values() if isinstance(each, type)]
    own = [each for each in classes if each.__module__ == name]
    assert own
    for each in own:
        other = vars(postponed)[each.__name__]
        assert other is not each
        assert _read(other) == _read(each)


def _read(cls: Any) -> dict[str, Any]:
    """Return what the SDK makes of the annotations of a class, as texts."""
    found: dict[str, Any] = {}
    for name in (
        "input_type_types",
        "input_type_py_to_pulumi_names",
        "output_type_types",
        "resource_types",
        "resource_py_to_pulumi_names",
    ):
        try:
            read: dict[str, Any] = getattr(_types, name)(cls)
        except AssertionError:  # it is not of that kind
            continue
        found[name] = {key: repr(value) for key, value in read.items()}
    return found
