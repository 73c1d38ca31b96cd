"""A package of an SDK by parts is the package: the same names, fewer modules."""

import importlib
import re
import sys
from types import ModuleType

import pytest

from twin.pulumi.speedups import sdk_parts

PACKAGE = "an_sdk_package"
FILES = {
    "__init__": "import typing\n"
    + "".join(
        f"from .{name} import *\n"
        for name in ("_inputs", "get_network", "network", "odd", "url_map")
    )
    + "from . import outputs\n",
    "_inputs": "__all__ = ['NetworkPeerArgs']\nclass NetworkPeerArgs: ...\n",
    "get_network": "__all__ = ['get_network']\ndef get_network(): ...\n",
    "network": "__all__ = ['Network', 'NetworkArgs']\n"
    "from . import outputs\nfrom ._inputs import *\n"
    "class Network: peer = NetworkPeerArgs\nclass NetworkArgs: ...\n",
    "odd": "__all__ = ['Elsewhere']\nclass Elsewhere: ...\n",
    "outputs": "class NetworkPeer: ...\n",
    "url_map": "__all__ = ['URLMap']\nclass URLMap: ...\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / PACKAGE
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sdk_parts, "_PACKAGES", re.compile(PACKAGE))
    sdk_parts.load_by_parts()
    yield importlib.import_module(PACKAGE)
    for name in loaded():
        del sys.modules[name]


def loaded():
    return {name for name in sys.modules if name.partition(".")[0] == PACKAGE}


def modules(*names):
    return {PACKAGE, *(f"{PACKAGE}.{name}" for name in names)}


def test_nothing_is_loaded_before_a_name_is_asked_for(package):
    assert loaded() == {PACKAGE}
    assert package.__path__


@pytest.mark.parametrize("name", ["Network", "NetworkArgs"])
def test_a_resource_loads_its_module_and_what_that_imports(package, name):
    assert getattr(package, name).__name__ == name
    assert loaded() == modules("network", "_inputs", "outputs")
    assert package.Network.peer is package.NetworkPeerArgs


def test_a_name_in_capitals_is_found(package):
    assert package.URLMap.__module__ == f"{PACKAGE}.url_map"
    assert loaded() == modules("url_map")


def test_a_function_hides_the_module_that_is_called_like_it(package):
    assert callable(package.get_network)
    assert loaded() == modules("get_network")


def test_a_module_of_the_package_is_itself(package):
    assert package.outputs.__name__ == f"{PACKAGE}.outputs"
    assert loaded() == modules("outputs")


def test_a_name_whose_module_is_called_otherwise_loads_the_package(package):
    assert package.Elsewhere.__name__ == "Elsewhere"
    assert loaded() == modules(*(FILES.keys() - {"__init__"}))
    assert package.typing.__name__ == "typing"


def test_what_was_there_before_the_package_was_loaded_is_the_same_after(package):
    before = package.Network
    assert package.Elsewhere
    assert package.Network is before


def test_a_name_that_nobody_has_is_an_error(package):
    with pytest.raises(AttributeError, match="Nothing"):
        _ = package.Nothing


def test_everything_can_be_imported_at_once(package):
    found: dict[str, object] = {}
    exec(f"from {PACKAGE} import *", found)  # noqa: S102 - a statement that functions cannot hold
    assert {"Network", "URLMap", "Elsewhere", "get_network"} <= found.keys()


def test_only_packages_of_resources_are_loaded_so():
    takes = ["pulumi_gcp.compute", "pulumi_kubernetes.core.v1", "pulumi_kubernetes.rbac.v1beta1"]
    leaves = [
        "pulumi_gcp",
        "pulumi_gcp.config",  # a class in the place of a module
        "pulumi_kubernetes.core",
        "pulumi_gcp.compute.network",
        "pulumi.runtime",
    ]
    assert all(sdk_parts._PACKAGES.fullmatch(name) for name in takes)
    assert not any(sdk_parts._PACKAGES.fullmatch(name) for name in leaves)


def test_a_package_that_stands_for_itself_when_it_is_whole_is_left_alone(package, monkeypatch):
    class Whole(ModuleType):
        """What a package may make of itself while it loads."""

        @property
        def project(self) -> str:
            return "acme"

    def become(module):
        module.__class__ = Whole

    monkeypatch.setattr(sdk_parts._Parts, "_load", lambda _self, module: become(module))
    assert package.project == "acme"
