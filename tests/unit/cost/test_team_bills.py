"""Team bills: who pays for what, and that the charges of every stack add up to its cost."""

import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from infra.estimate.stack_cost import stack_cost
from infra.estimate.team_bills import (
    KEPT,
    UNUSED,
    Basis,
    Key,
    Overhead,
    Payer,
    Pool,
    Reserved,
    TeamBill,
    TokenCost,
    Tokens,
    divided,
    served_names,
    team_bill,
)
from infra.plan import resolve
from infra.reading.load import read
from planner.amount import HOURS_PER_MONTH
from planner.choice.cost import FIELDS
from tests.shipped_stacks import FILES

EACH = TokenCost(1e-6, 4e-6)
LLAMA = Pool("llama", "r", 100.0, 30.0, EACH)
OTHERS = {("cluster", "r"): 20.0, ("network", "r"): 10.0}


def used(**tokens: int) -> dict[Key, Tokens]:
    """Return prompt tokens of teams at `llama`."""
    return {Key(team, "llama", "r"): Tokens(1, count) for team, count in tokens.items()}


def by_team(bill: TeamBill) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for each in bill.charges:
        found[each.team or str(each.payer)] += each.usd
    return {name: round(usd, 6) for name, usd in found.items()}


def test_a_team_pays_for_the_tokens_that_replicas_computed_for_it():
    tokens = {Key("a", "llama", "r"): Tokens(9, 30_000_000, 10_000_000, 5_000_000)}
    bill = divided([LLAMA], OTHERS, tokens, 1)
    assert by_team(bill) == {"a": 40.0, "idle": 90.0, "platform": 30.0}
    idle = {each.component: each.usd for each in bill.charges if each.payer is Payer.IDLE}
    assert idle == {UNUSED: 60.0, KEPT: 30.0}


def test_teams_that_use_more_than_the_replicas_at_their_target_share_all_of_them():
    bill = divided([LLAMA], OTHERS, used(a=150_000_000, b=50_000_000), 1)
    assert by_team(bill) == {"a": 75.0, "b": 25.0, "idle": 30.0, "platform": 30.0}


def test_shared_overhead_follows_what_teams_pay_for_accelerators():
    bill = divided([LLAMA], OTHERS, used(a=30_000_000, b=10_000_000), 1, overhead=Overhead.SHARED)
    assert by_team(bill) == {"a": 120.0, "b": 40.0}


def test_what_nobody_used_stays_idle_also_with_shared_overhead():
    other = replace(LLAMA, model="qwen")
    bill = divided([LLAMA, other], {}, used(a=100_000_000), 1, overhead=Overhead.SHARED)
    assert by_team(bill) == {"a": 130.0, "idle": 130.0}
    assert by_team(divided([LLAMA], OTHERS, {}, 1, overhead=Overhead.SHARED)) == {
        "idle": 130.0,
        "platform": 30.0,
    }


def test_a_model_of_unknown_speed_is_divided_by_tokens_and_has_no_known_idle_part():
    pool = replace(LLAMA, each=None)
    bill = divided([pool], {}, used(a=3, b=1), 1)
    assert by_team(bill) == {"a": 75.0, "b": 25.0, "idle": 30.0}
    assert bill.unknown == ("llama",)


def test_a_reservation_is_paid_for_whether_it_is_used_or_not():
    # a request of 1,000 prompt tokens and 200 of answer costs 0.0018, so 100 dollars are 66.67 M
    reserved = {("a", "r"): Reserved(200_000_000 / 3 / 2, frozenset({"llama"}))}
    bill = divided([LLAMA], {}, used(a=1, b=10_000_000), 1, reserved=reserved)
    assert by_team(bill) == {"a": 50.0, "b": 10.0, "idle": 70.0}


def test_reservations_above_all_replicas_shrink_in_proportion():
    reserved = {(team, "r"): Reserved(1e12, None) for team in ("a", "b")}
    bill = divided([LLAMA, replace(LLAMA, model="qwen")], {}, {}, 1, reserved=reserved)
    assert by_team(bill) == {"a": 100.0, "b": 100.0, "idle": 60.0}


def test_requests_to_models_of_others_are_named_and_cost_nothing_here():
    bill = divided([LLAMA], {}, {Key("a", "gemini", "r"): Tokens(1, 5, 0, 5)}, 1)
    assert bill.elsewhere == ("gemini",)
    assert by_team(bill) == {"idle": 130.0}


def test_an_invoice_is_divided_in_the_same_proportions():
    bill = divided([LLAMA], OTHERS, used(a=30_000_000), 1).scaled(80.0)
    assert by_team(bill) == {"a": 15.0, "idle": 50.0, "platform": 15.0}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_the_charges_of_every_stack_add_up_to_its_cost(file: Path) -> None:
    plan = resolve(read(file.stem.removeprefix("Pulumi."), file.parent))
    cost = stack_cost(plan)
    choose = random.Random(file.stem)
    names = [*served_names(plan), "unknown"]
    teams = [*([] if plan.clients is None else plan.clients.settings.teams), "other"]
    for basis in Basis:
        hours, field = choose.uniform(1, HOURS_PER_MONTH), choose.choice(FIELDS)
        most = 10 ** choose.randint(1, 13)
        tokens = {
            Key(team, name, region): Tokens(1, most, choose.randint(0, most), most // 3)
            for team in teams
            for name in names
            for region in plan.regions
            if choose.random() < 0.5
        }
        overhead = choose.choice(list(Overhead))
        bill = team_bill(plan, cost, tokens, hours, basis=basis, overhead=overhead, field=field)
        whole = cost.total(field).value * hours
        assert sum(bill.of(payer) for payer in Payer) == pytest.approx(whole, rel=1e-9)
        assert all(each.usd >= 0 for each in bill.charges)
