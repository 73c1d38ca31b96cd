"""A gateway with the callout, and a guard that the tests share, as it is slow to start."""

from collections.abc import Iterator

import pytest

from tests.running.callout.conftest import world
from tests.running.guardrails.guard import Guard

__all__ = ["guard", "world"]


@pytest.fixture(scope="session")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    made = Guard(tmp_path_factory.mktemp("guard"))
    yield made
    made.kill()
