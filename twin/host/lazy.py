"""Lazy loading of large modules that most runs do not need."""

import importlib
from typing import Any


class Later:
    """A placeholder for a module, which is loaded on the first access to a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
