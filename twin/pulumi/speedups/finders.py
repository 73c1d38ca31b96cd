"""Finders that give modules of SDKs another loader than the interpreter's."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class Finder(MetaPathFinder, ABC):
    """Finds what the interpreter finds on its path, with a loader of its own."""

    def install(self) -> None:
        """Ask this finder first from now on, unless one of its kind is asked already."""
        if not any(type(finder) is type(self) for finder in sys.meta_path):
            sys.meta_path.insert(0, self)

    @abstractmethod
    def takes(self, name: str) -> bool:
        """Return whether a module may get another loader."""

    @abstractmethod
    def loader(self, spec: ModuleSpec) -> Loader | None:
        """Return the loader of a module; None if it keeps its own."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a module's spec; None leaves it to the other finders."""
        spec = PathFinder.find_spec(fullname, path, target) if self.takes(fullname) else None
        loader = None if spec is None else self.loader(spec)
        if spec is None or loader is None:
            return None
        spec.loader = loader
        return spec
