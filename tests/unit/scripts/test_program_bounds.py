"""Ranges of programs in containers come from the types of a stack."""

import pytest

from infra.stack.backends import Fallback
from infra.stack.clients import ClientTeam
from scripts.docs.program_bounds import bounds_of


def test_a_program_has_the_range_of_the_stack_also_of_a_setting_that_may_be_unset():
    assert bounds_of(Fallback, "monthly_usd") == {"above": 0, "most": 1e9}
    assert bounds_of(ClientTeam, "monthly_usd") == {"above": 0, "most": 1e9}


def test_a_program_may_accept_more_than_the_stack():
    assert bounds_of(Fallback, "after_queue", {"least": 0}) == {"least": 0, "most": 10_000}
    assert bounds_of(Fallback, "after_queue", {"most": 20_000}) == {"least": 1, "most": 20_000}


@pytest.mark.parametrize(
    ("end", "value", "message"),
    [("least", 2, "least must be wider than 1, got 2"), ("most", 9, "must be wider than 10000")],
)
def test_a_program_that_would_accept_less_than_the_stack_is_not_generated(end, value, message):
    with pytest.raises(ValueError, match=f"Fallback.after_queue: .*{message}"):
        bounds_of(Fallback, "after_queue", {end: value})


def test_a_setting_without_a_range_is_not_generated():
    with pytest.raises(ValueError, match=r"Fallback\.backend: must have a range, got none"):
        bounds_of(Fallback, "backend")
