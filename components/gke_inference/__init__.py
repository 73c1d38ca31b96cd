"""Pulumi components for AI inference on Google Kubernetes Engine.

This package exports the components and the types of their arguments, as `__init__.pyi` lists them.
They are loaded on first use, since the cloud SDKs behind them take seconds to import. Facts and
rules do not need the SDKs: `catalogue` (accelerators, prices, quotas, versions), `sizing` and
`intent`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
