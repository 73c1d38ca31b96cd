"""Pipelines with Apache Beam, in an environment of their own."""

import pytest

from twin.engines.pipelines import PIPELINES


def pytest_collection_modifyitems(items):
    """Skip what needs Apache Beam where it is not installed."""
    if PIPELINES.is_installed:
        return
    for item in items:
        if "needs_beam" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=PIPELINES.hint))
