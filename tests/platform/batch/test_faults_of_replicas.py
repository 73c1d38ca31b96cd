"""Faults of replicas on the platform of batches, which has the three that they need.

tests/platform/faults has them at full length, and more of them.
"""

import pytest

from tests.platform.faults.conftest import say
from tests.platform.faults.test_faults import kill_a_replica, preempt_a_node

pytestmark = pytest.mark.needs_tools

__all__ = ["say"]


@pytest.fixture
def settled(platform):
    """The platform once three replicas are ready."""
    platform.settle()
    return platform


def short(seconds, _):
    """Pick the first of two lengths."""
    return seconds


def test_a_killed_replica_costs_the_answers_it_was_giving_and_no_others(settled, say):
    kill_a_replica(settled, say, short)


def test_a_preempted_node_finishes_its_answers_within_its_notice(settled, say):
    preempt_a_node(settled, say, short)
