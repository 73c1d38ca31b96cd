"""Fixtures of the engine tests."""

import pytest

from twin.engines.real.install import SGLANG, VLLM

_NEEDED = {"needs_sglang": SGLANG, "needs_vllm": VLLM}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a real engine which is not installed."""
    for marker, environment in _NEEDED.items():
        if environment.is_installed:
            continue
        for item in items:
            if marker in item.keywords:
                item.add_marker(pytest.mark.skip(reason=environment.hint))
