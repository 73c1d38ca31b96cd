"""Pulumi components for AI inference on Google Kubernetes Engine.

This package exports the components and the types of their arguments, as `__init__.pyi` lists them.
They are loaded on first use, since the cloud SDKs behind them take seconds to import. Facts and
rules do not need the SDKs: `catalogue` (accelerators, prices, quotas, versions), `sizing` and
`intent`.
"""

from collections.abc import Callable
from typing import Any, cast

import lazy_loader

__getattr__, __dir__, __all__ = cast(
    "tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]",
    lazy_loader.attach_stub(__name__, __file__),
)
