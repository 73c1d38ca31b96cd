"""Fixtures of the engine tests."""

import pytest

from twin.engines.real import install


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need the real vLLM if it is not installed."""
    if install.is_installed():
        return
    reason = "the real vLLM is not installed: `gke-inference tools --with vllm`"
    for item in items:
        if "needs_vllm" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=reason))
