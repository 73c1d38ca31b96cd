"""Cost of whole stacks, compared with manual calculations in cases/."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.estimate.cost_parts import GROUPS, Nodes
from infra.estimate.feature_costs import network_parts
from infra.estimate.stack_cost import StackCost, stack_cost
from infra.estimate.usage import DEFAULT_USAGE, Usage
from infra.plan import resolve
from infra.reading.load import parse, platform_of, read
from planner.amount import HOURS_PER_MONTH, always
from planner.choice.cost import FIELDS, Bill, Line
from scripts.plan.cost_tables import schedule_lines
from tests.contract.infra.broken_stacks import edited
from tests.shipped_stacks import EXAMPLES

CASES = {
    file.stem: yaml.safe_load(file.read_text())
    for file in sorted((Path(__file__).parent / "cases").glob("*.yaml"))
}
CENT = 0.006
"""Dollars that a figure of a case may be off by: it is rounded to the cent."""


def cost_of(case: dict[str, Any]) -> StackCost:
    platform = parse(json.dumps(edited(case["base"], case.get("edits", []))))
    return stack_cost(resolve(platform), usage=Usage(**case.get("usage", {})))


def monthly(found: Any) -> list[float]:
    return [getattr(found, field).value * HOURS_PER_MONTH for field in FIELDS]


def figures(said: Any) -> Any:
    return pytest.approx(said if isinstance(said, list) else [said] * 3, abs=CENT)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_stack_costs_what_its_case_calculates(case: dict[str, Any]) -> None:
    found = cost_of(case)
    parts = {f"{part.group}/{part.what}": monthly(part) for part in found.parts}
    for name, said in case.get("parts", {}).items():
        assert parts[name] == figures(said), name
    for name, said in case.get("groups", {}).items():
        assert monthly(found.by_group[name]) == figures(said), name
    if "total" in case:
        assert set(case["parts"]) == set(parts) - {"network/Cloud Armor policy"}
        whole = [found.total(field).value * HOURS_PER_MONTH for field in FIELDS]
        assert whole == pytest.approx(case["total"], abs=5 * CENT)
    if "missing" in case:
        assert [str(one) for one in found.missing] == case["missing"]
    if "committed" in case:
        listed = found.commitments
        paid = {"on_demand": listed.on_demand, 1: listed.committed(1), 3: listed.committed(3)}
        assert {key: amount.value * HOURS_PER_MONTH for key, amount in paid.items()} == (
            pytest.approx(case["committed"], abs=CENT)
        )
        assert [str(one) for one in listed.missing] == case["not_committed"]


def test_groups_add_up_to_the_total_and_a_price_without_a_part_is_in_no_sum() -> None:
    found = stack_cost(resolve(read("prod")))
    assert [group.name for group in found.groups] == list(GROUPS)
    for field in FIELDS:
        of_groups = sum(group.total(field).value for group in found.groups)
        assert of_groups == pytest.approx(found.total(field).value)
    unknown = [part for part in found.parts if part.source is None]
    assert unknown
    assert all(getattr(part, field).value == 0 for part in unknown for field in FIELDS)


@pytest.mark.parametrize(
    ("machines", "usd_per_hour"), [(0, 0.0), (32, 32 * 0.0014), (33, 0.044), (500, 0.044)]
)
def test_a_nat_gateway_costs_by_the_machine_up_to_32(machines: int, usd_per_hour: float) -> None:
    nodes = [Nodes("e2-standard-4", "pd-balanced", 100, always(machines))]
    front = resolve(read("prod")).front
    parts = network_parts(front, "us-central1", nodes, DEFAULT_USAGE, has_nat=True)
    (gateway,) = (part for part in parts if part.what == "NAT gateway")
    assert gateway.maximum.value == pytest.approx(usd_per_hour)


def test_a_share_of_the_traffic_moves_replicas_and_system_nodes_alike() -> None:
    plan = resolve(read("local"))
    least, most = stack_cost(plan, 0.01), stack_cost(plan, 1.0)
    assert least.total("expected") == least.total("minimum")
    assert most.total("expected") == most.total("maximum")


@pytest.mark.parametrize("field", list(asdict(DEFAULT_USAGE)))
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_usage_that_is_no_amount_is_refused_by_its_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}: must be 0 or more, got {value}$"):
        Usage(**{field: value})


def test_a_shared_folder_costs_what_its_whole_capacity_costs() -> None:
    live = {"place": "lustre", "max_rank": 32}
    gpu = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}
    lustre = {"capacity_gib": 18_000, "services_range": "10.64.0.0/20"}
    edits: list[dict[str, Any]] = [
        {"at": ["models", "llama-3.1-8b", "adapters"], "value": []},
        {"at": ["models", "llama-3.1-8b", "live_adapters"], "value": live},
        {"at": ["capacity", "interactive", "rungs"], "value": [gpu]},
        {"at": ["models", "llama-3.1-8b", "form"], "value": "single"},
        {"at": ["models", "llama-3.1-8b", "replicas"], "value": {"min": 1, "max": 4}},
        {"at": ["storage"], "value": {"lustre": {**lustre, "mb_per_second_per_tib": 500}}},
    ]
    parts = {part.what: monthly(part) for part in cost_of({"base": "local", "edits": edits}).parts}
    assert parts["Managed Lustre 500 MB/s per TiB"] == figures(18_000 * 0.34)


def test_a_region_without_models_has_no_gate_to_pay_for() -> None:
    prod = read("prod")
    served = ("us-central1", "europe-west4")
    assert served != tuple(prod.regions)
    fewer = {
        name: model.model_copy(update={"regions": served}) for name, model in prod.models.items()
    }
    found = stack_cost(resolve(prod.model_copy(update={"models": fewer})))
    gated = [part.region for part in found.parts if part.what == "Secret Manager, reads"]
    assert gated == list(served)


def test_images_that_are_pulled_through_are_listed_without_a_price() -> None:
    images = {"repository": "engines", "pull_through": {"name": "upstream"}}
    found = cost_of({"base": "local", "edits": [{"at": ["images"], "value": images}]})
    listed = [str(each) for each in found.missing if "Artifact Registry" in str(each)]
    assert len(listed) == 2
    assert "images pulled through Artifact Registry in us-central1" in listed[1]


def test_messages_of_streams_have_a_price_once_their_amount_is_given() -> None:
    document = platform_of(EXAMPLES / "streaming" / "Pulumi.streaming.yaml")
    platform = parse(json.dumps(document))
    name = "Pub/Sub, messages published and delivered"

    def parts(usage: Usage) -> list[list[float]]:
        found = stack_cost(resolve(platform), usage=usage).parts
        return [monthly(part) for part in found if part.what == name and part.source is not None]

    assert parts(DEFAULT_USAGE) == []
    assert parts(Usage(events_gib=512)) == [figures(40.0)]  # 512 GiB in and out at 40 USD per TiB


WINDOW = {"days": ["SA", "SU"], "start": "06:00", "end": "18:00", "min": 4}
SCHEDULE = {"time_zone": "Europe/Berlin", "windows": [WINDOW]}


def test_a_schedule_costs_the_hours_of_its_windows() -> None:
    def line(replicas: dict[str, Any]) -> Line:
        at = ["models", "llama-3.1-8b", "replicas"]
        platform = parse(json.dumps(edited("local", [{"at": at, "value": replicas}])))
        return next(each for each in stack_cost(resolve(platform)).bill.lines)

    bounds = {"min": 1, "max": 5}
    usual, scheduled = line(bounds), line({**bounds, "schedule": SCHEDULE})
    assert (usual.replicas.minimum, usual.replicas.expected) == (1, 2)
    share = 24 / 168
    assert scheduled.served.shares == ((4, pytest.approx(share)),)
    assert scheduled.replicas.minimum == pytest.approx(1 + 3 * share)
    assert scheduled.replicas.expected == pytest.approx(2 + 2 * share)
    assert scheduled.replicas.maximum == usual.replicas.maximum
    assert scheduled.minimum.value == pytest.approx(usual.minimum.value * (1 + 3 * share))
    assert list(schedule_lines(Bill((usual, scheduled)))) == [
        "llama-3.1-8b in us-central1 (serve): 24 h with at least 4, 144 h with at least 1 a week"
    ]
