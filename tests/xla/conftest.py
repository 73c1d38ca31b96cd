"""Fixtures of the tests that run where JAX and the TPU compiler are installed."""

import pytest

from twin.toolchain.python_environments import XLA


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs JAX where it is not installed."""
    if XLA.is_installed:
        return
    for item in items:
        if "needs_xla" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=XLA.hint))
