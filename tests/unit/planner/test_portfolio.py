"""Hardware for all models of a stack together."""

import itertools
from dataclasses import replace

from planner.advice.portfolio import Key, Offer, Requirement, Rest, cheapest, frontier, within
from planner.choice.question import Estimate

TPUS: Key = ("us-central1", "TPUS")
GPUS: Key = ("us-central1", "GPUS")


def offer(what: str, usd: float, temporary: float = 0.0, **uses: int) -> Offer[str]:
    keys = {"tpus": TPUS, "gpus": GPUS}
    used = {keys[name]: amount for name, amount in uses.items()}
    return Offer(what, Estimate(usd, usd / 2, usd * 2), used, temporary)


CHAT = Requirement(
    "chat", 3.0,
    (offer("tpu", 10, tpus=8), offer("gpu", 14, gpus=4), offer("tpu spot", 4, 1.0, tpus=8)),
)  # fmt: skip
CODE = Requirement(
    "code", 1.0, (offer("tpu", 20, tpus=8), offer("gpu", 21, gpus=4), offer("gpu spot", 9, 1.0))
)


def names(found) -> dict[str, str]:
    return {name: one.what for name, one in found.chosen.items()}


def test_without_limits_each_model_has_its_cheapest_offer():
    found = cheapest([CHAT, CODE], {})
    assert found is not None
    assert names(found) == {"chat": "tpu spot", "code": "gpu spot"}
    assert found.usd_per_hour == Estimate(13, 6.5, 26)
    assert found.temporary_share == 1


def test_a_quota_is_given_to_the_model_that_saves_most_with_it():
    found = cheapest([CHAT, CODE], {TPUS: 8}, most_temporary=0)
    assert found is not None
    assert names(found) == {"chat": "tpu", "code": "gpu"}
    assert found.uses == {TPUS: 8, GPUS: 4}


def test_the_solver_finds_what_a_search_of_everything_finds():
    limits = {TPUS: 8, GPUS: 6}
    for share in (0.0, 0.25, 0.75, 1.0):
        best = min(
            sum(one.usd_per_hour.value for one in pair)
            for pair in itertools.product(CHAT.offers, CODE.offers)
            if all(
                sum(one.uses.get(key, 0) for one in pair) <= most for key, most in limits.items()
            )
            and 3 * pair[0].temporary + pair[1].temporary <= 4 * share
        )
        found = cheapest([CHAT, CODE], limits, share)
        assert found is not None
        assert found.usd_per_hour.value == best


def test_quotas_that_nothing_fits_have_no_portfolio():
    assert cheapest([CHAT, CODE], {TPUS: 0, GPUS: 0}, most_temporary=0) is None
    assert frontier([Requirement("chat", 1.0, CHAT.offers[:1])], {TPUS: 7}) == []


def test_the_frontier_costs_less_with_more_temporary_nodes_and_has_no_point_twice():
    found = frontier([CHAT, CODE], {})
    assert [one.temporary_share for one in found] == [0, 0.25, 1]
    assert [one.usd_per_hour.value for one in found] == [30, 19, 13]


def test_a_budget_pays_the_point_with_the_fewest_temporary_nodes():
    found = frontier([CHAT, CODE], {})
    paid = within(found, 20)
    assert paid is not None
    assert paid.temporary_share == 0.25
    assert within(found, None) is found[0]
    assert within(found, 12) is None


def test_the_rest_of_a_stack_uses_quota_and_costs_money():
    rest = Rest(5.0, {TPUS: 8})
    found = frontier([CHAT, CODE], {TPUS: 16}, rest)
    assert [one.usd_per_hour.value for one in found] == [36, 24, 18]
    assert found[0].uses == {TPUS: 16, GPUS: 4}
    paid = within(found, 25)
    assert paid is not None
    assert paid.usd_per_hour.value == 24


def test_the_node_of_an_upgrade_is_counted_once_and_as_the_largest():
    node = (TPUS, "us-central1")
    offers = [replace(offer("tpu", 10, tpus=8), spare={node: chips}) for chips in (1, 4)]
    requirements = [Requirement(str(at), 1.0, (one,)) for at, one in enumerate(offers)]
    assert cheapest(requirements, {TPUS: 19}) is None
    found = cheapest(requirements, {TPUS: 20}, rest=Rest(0.0, {}, {node: 2}))
    assert found is not None
    assert found.uses == {TPUS: 20}
    assert cheapest(requirements, {TPUS: 20}, rest=Rest(0.0, {}, {node: 5})) is None


def test_offers_of_equal_cost_differ_by_their_burden():
    offers = tuple(replace(offer(str(burden), 10), burden=burden) for burden in (3.0, 1.0, 2.0))
    found = cheapest([Requirement("chat", 1.0, offers)], {})
    assert found is not None
    assert names(found) == {"chat": "1.0"}
