"""Jobs that optimize models, with the real libraries and a model of a million parameters."""

import pytest

from twin.engines.optimization import EVALUATION, OPTIMIZATION


def pytest_collection_modifyitems(items):
    """Skip what needs the real libraries where they are not installed."""
    missing = next((each for each in (OPTIMIZATION, EVALUATION) if not each.is_installed), None)
    if missing is None:
        return
    for item in items:
        if "needs_optimization" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=missing.hint))
