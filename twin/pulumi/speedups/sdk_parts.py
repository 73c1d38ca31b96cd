"""Partial loading of a provider's SDK: only modules whose names are used.

A package such as `pulumi_gcp.compute` imports two hundred modules, one per resource, of which a
program uses a few. This loader looks for a name in the module with the corresponding name, as the
SDK generator names them. If it is not there, the whole package is loaded, as usual.
"""

import importlib
import re
import threading
from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from twin.pulumi.speedups.finders import Finder

_PACKAGES = re.compile(r"pulumi_gcp\.(?!config$)\w+|pulumi_kubernetes\.\w+\.v\w+")
"""Packages with one module per resource and nothing else."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def load_by_parts() -> None:
    """Load packages that are imported from now on in parts."""
    _Finder().install()


class _Finder(Finder):
    def takes(self, name: str) -> bool:
        return _PACKAGES.fullmatch(name) is not None

    def loader(self, spec: ModuleSpec) -> Loader | None:
        if spec.loader is None or not spec.submodule_search_locations:
            return None
        return _Parts(spec.loader)


class _Parts(Loader):
    """A loader of packages that load a module when one of its names is used."""

    def __init__(self, whole: Loader) -> None:
        self._whole = whole
        self._lock = threading.RLock()

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._whole.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        (folder,) = module.__path__
        known = {file.stem for file in Path(folder).iterdir()}

        def find(name: str) -> Any:
            if name.startswith("__") and name != "__all__":
                raise AttributeError(name)
            with self._lock:
                # a request for all names loads the whole package
                found = None if name == "__all__" else _part(module.__name__, name, known)
                if found is None:
                    self._load(module)
                    return getattr(module, name)
                setattr(module, name, found)
                return found

        attributes: dict[str, Callable[[str], Any]] = vars(module)
        attributes["__getattr__"] = find

    def _load(self, module: ModuleType) -> None:
        vars(module).pop("__getattr__", None)
        self._whole.exec_module(module)


def _part(package: str, name: str, known: set[str]) -> Any:
    """Return the value of a name in a package, or None if it has no module of its own."""
    if name in known:  # a module, or the function that hides it in the whole package
        module = importlib.import_module(f"{package}.{name}")
        return vars(module).get(name, module)
    resource = name.removesuffix("Args")
    for candidate in (resource, _WORDS.sub("_", resource).lower(), "_inputs"):
        if candidate in known:
            found = vars(importlib.import_module(f"{package}.{candidate}")).get(name)
            if found is not None:
                return found
    return None
