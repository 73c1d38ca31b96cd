"""`replicas.buffer` in a stack: which replicas it is for, and what follows from it."""

import json
from typing import Any

import pytest

from infra.deploy.serving_arguments import server_args
from infra.estimate.cold_starts import starts
from infra.estimate.quota_needs import needs
from infra.estimate.stack_cost import served
from infra.estimate.unit_costs import by_model, unit_costs
from infra.plan import Plan, resolve
from infra.plan.gke_version import needed
from infra.reading.load import parse
from infra.rules.versions import check_versions
from planner.choice.cost import bill
from tests.contract.infra.broken_stacks import edited

MODEL = "llama-3.1-8b"
REPLICAS = {"min": 1, "max": 4, "standby": 1}


def planned(*edits: tuple[list[Any], Any], base: str = "local", buffer: int = 2) -> Plan:
    listed = [{"at": place, "value": value} for place, value in edits]
    listed.append(
        {"at": ["models", MODEL, "replicas"], "value": {**REPLICAS, "buffer": buffer}},
    )
    return resolve(parse(json.dumps(edited(base, listed))))


def needed_of(plan: Plan, label: str) -> int:
    (amount,) = (need.amount for need in needs(plan) if need.metric.label == label)
    return amount


def test_nodes_are_kept_for_the_tpu_replicas_of_a_pair() -> None:
    (model,) = planned().models[MODEL]
    assert {rung.accelerator for rung in model.buffer_rungs.values()} == {"tpu-v6e"}
    assert server_args(model).get("buffer_replicas") == 2
    (without,) = planned(buffer=0).models[MODEL]
    assert "buffer_replicas" not in server_args(without)


def test_a_canary_has_a_buffer_only_if_its_own_replicas_say_so() -> None:
    canary = {"version": "v2", "weights": "llama-3.1-8b-v2"}
    place = ["models", MODEL, "canary"]
    (same,) = planned((place, canary)).models["llama-3.1-8b-v2"]
    assert (same.replicas.max, same.buffer) == (4, 0)
    own = {**canary, "replicas": {"min": 1, "max": 1, "buffer": 1}}
    (other,) = planned((place, own)).models["llama-3.1-8b-v2"]
    assert other.buffer == 1


def test_a_buffer_asks_for_the_version_of_gke_that_has_it() -> None:
    plan = planned((["models", MODEL, "replicas", "standby"], 1))
    assert needed(plan.regions["us-central1"]) == (
        "1.35.2-gke.1842000",
        f"replicas.buffer of {MODEL}",
    )
    assert list(check_versions(plan)) == []


def test_the_quota_covers_the_nodes_of_a_buffer() -> None:
    chips, gpus = "TPUS_PER_TPU_FAMILY CT6E", "NVIDIA_L4_GPUS"
    assert needed_of(planned(), chips) - needed_of(planned(buffer=0), chips) == 2 * 4
    assert needed_of(planned(), gpus) == needed_of(planned(buffer=0), gpus)


def test_a_buffer_costs_the_same_at_any_load() -> None:
    lines = {line.served.role: line for line in bill(served(planned())).lines}
    kept = lines["buffer"]
    assert (kept.served.replicas.min, kept.expected_replicas, kept.served.replicas.max) == (2, 2, 2)
    assert kept.minimum.value == kept.expected.value == kept.maximum.value
    assert kept.expected.value == pytest.approx(2 * lines["serve"].minimum.value)


def test_the_cost_of_an_answer_includes_the_nodes_that_are_kept_empty() -> None:
    plans = [planned(buffer=count) for count in (0, 2)]
    bills = [bill(served(plan)) for plan in plans]
    costs = [unit_costs(plan, found) for plan, found in zip(plans, bills, strict=True)]
    without, kept = (by_model(cost)[MODEL].usd for cost in costs)
    hours = [found.total("expected").value for found in bills]
    assert without is not None
    assert kept is not None
    assert kept.value.value / without.value.value == pytest.approx(hours[1] / hours[0])


def test_replicas_on_kept_nodes_start_without_the_time_of_a_node() -> None:
    found = {one.rung: one for one in starts(planned())}
    tpu, gpu = found["tpu-v6e 2x2 reservation"], found["nvidia-l4 x1 on-demand"]
    (node,) = (stage.seconds for stage in tpu.start.stages if stage.name == "node")
    assert (tpu.kept, gpu.kept) == (2, 0)
    assert tpu.kept_seconds == pytest.approx(tpu.start.seconds - node)
