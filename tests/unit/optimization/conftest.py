"""Fixtures of the optimization jobs' tests."""

import logging
from collections.abc import Iterator

import pytest

from workloads.common import logs


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    """Give the loggers back as they were: a job writes its lines to the stream of its test."""
    root, own = logging.getLogger(), logs._log
    handlers, level, own_level = list(root.handlers), root.level, own.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    own.setLevel(own_level)
