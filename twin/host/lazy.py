"""Modules that are loaded when something of them is used: large ones that most runs do without."""

import importlib
from typing import Any


class Later:
    """Stands for a module, which is loaded when the first of its names is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
