"""A stack, resolved once: what its records hold."""

import dataclasses
import json
from typing import Any

import pytest

from gke_inference.catalogue.input_error import InputError
from infra.plan import capacity_by_region, resolve
from infra.plan.gke_version import needed
from infra.reading.load import STACKS, parse, platform_of, read, stack_names
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.resolved import region_of, served_in
from tests.contract.infra.test_canary import SECOND
from tests.contract.infra.test_canary import platform as with_canary
from tests.contract.infra.test_disaggregation import MODEL as LARGE
from tests.contract.infra.test_disaggregation import first_region
from tests.contract.infra.test_disaggregation import platform as disaggregated

MODEL, REGION = "llama-3.1-8b", "us-central1"


def test_a_served_model_holds_every_fact_that_readers_share() -> None:
    served = served_in(read("prod"), MODEL, REGION)
    assert (served.name, served.region, served.role, served.form.value) == (
        MODEL,
        REGION,
        "serve",
        "paired",
    )
    assert (served.replicas.min, served.replicas.max, served.standby) == (2, 12, 1)
    assert (served.object_name, served.served_name) == ("llama-3-1-8b", MODEL)
    assert served.deployments == {"tpu": "llama-3-1-8b-tpu", "gpu": "llama-3-1-8b-gpu"}
    assert served.weights == "gs://acme-prod-models-us-central1/llama-3.1-8b"
    assert served.capacity.classes == {"tpu": "interactive-tpu", "gpu": "interactive-gpu"}
    assert (served.version, served.prefill, served.disk_zones) == (None, None, None)


def test_rungs_keep_their_place_in_the_stack_and_the_zones_that_have_them() -> None:
    served = served_in(read("local"), MODEL, REGION)
    assert [f"{at} {rung.label}" for at, rung in served.rungs.items()] == [
        "0 tpu-v6e 2x2 reservation",
        "1 nvidia-l4 x1 on-demand",
        "2 nvidia-l4 x1 spot",
    ]
    assert served.zones(0) == ("us-central1-b",)
    assert served.capacity.of_kind("tpu") == {0: served.rungs[0]}


def test_a_region_knows_its_cluster_and_what_its_models_need() -> None:
    region = region_of(read("local"), REGION)
    assert (region.cluster_name, region.location) == ("acme-local-us-central1", REGION)
    assert [capacity.name for capacity in region.used_capacity] == ["interactive"]
    assert region.has_groups is False


def test_every_model_is_in_each_of_its_regions_and_only_there() -> None:
    for name in stack_names():
        platform = read(name)
        plan = resolve(platform)
        for model, every in plan.models.items():
            regions = [served.region for served in every]
            assert regions == list(platform.regions_of(platform.models[model]))
        listed = [served for region in plan.regions.values() for served in region.served]
        assert len(listed) == sum(map(len, plan.models.values()))


def test_a_canary_stands_right_behind_its_model() -> None:
    plan = resolve(with_canary(percent=10))
    assert [served.name for served in plan.regions[REGION].served] == [MODEL, SECOND]
    first, second = plan.regions[REGION].served
    assert (first.version, second.served_name) == (None, MODEL)
    assert second.settings.canary is None


def test_a_disaggregated_model_has_two_roles_with_deployments_of_their_own() -> None:
    prod = disaggregated(capacity="prompts")
    decode, prefill = served_in(prod, LARGE, first_region(prod)).roles
    assert (decode.role, decode.capacity.name) == ("decode", "heavy")
    assert (prefill.role, prefill.capacity.name) == ("prefill", "prompts")
    assert decode.deployments == {"gpu": "llama-3-3-70b-decode"}
    assert prefill.deployments == {"gpu": "llama-3-3-70b-prefill"}
    assert (prefill.replicas.min, prefill.replicas.max, prefill.standby) == (2, 6, 0)


def test_records_cannot_be_changed() -> None:
    served: Any = served_in(read("local"), MODEL, REGION)
    with pytest.raises(dataclasses.FrozenInstanceError):
        served.standby = 9


def test_a_capacity_that_no_model_of_a_region_uses_is_told_from_one_that_is_used() -> None:
    spare = {"rungs": [{"accelerator": "nvidia-l4", "count": 1, "provisioning": "spot"}]}
    stack = parse(json.dumps(edited("local", [{"at": ["capacity", "spare"], "value": spare}])))
    found = resolve(stack).regions[REGION].capacity
    assert (found["interactive"].is_used, found["spare"].is_used) == (True, False)


def test_a_broken_rung_is_a_problem_of_its_place_and_leaves_no_rungs() -> None:
    stack = read("local")
    capacity = stack.capacity["interactive"]
    broken = capacity.rungs[1].model_copy(update={"count": 3})
    rungs = (capacity.rungs[0], broken, *capacity.rungs[2:])
    changed = stack.model_copy(
        update={"capacity": {"interactive": capacity.model_copy(update={"rungs": rungs})}}
    )
    found = capacity_by_region(changed)["interactive"][REGION]
    assert dict(found.rungs) == {}
    (at,) = found.problems
    problem = found.problems[at]
    assert isinstance(problem, InputError)
    assert (at, problem.path) == (1, "capacity.interactive.rungs[1].count")


@pytest.mark.parametrize("is_sorted", [False, True])
def test_a_model_has_the_same_first_region_in_its_file_and_in_the_engine(is_sorted) -> None:
    """The engine sorts the fields of a stack."""
    document = platform_of(STACKS / "Pulumi.prod.yaml")
    assert list(document["regions"]) != sorted(document["regions"])
    platform = parse(json.dumps(document, sort_keys=is_sorted))
    served = {
        region: served_in(platform, "llama-3.1-8b", region).is_first
        for region in platform.regions_of(platform.models["llama-3.1-8b"])
    }
    assert served == {"asia-northeast1": True, "europe-west4": False, "us-central1": False}


@pytest.mark.parametrize(
    ("gpu", "mode", "version", "because"),
    [
        ("nvidia-rtx-pro-6000", "standard", "1.34.0-gke.1662000", "nvidia-rtx-pro-6000"),
        ("nvidia-rtx-pro-6000", "autopilot", "1.34.1-gke.1829001", "nvidia-rtx-pro-6000"),
        # Google asks for 1.31.4 and 1.32.2 at most, which are older than what every model needs
        ("nvidia-h200-141gb", "standard", "1.34.0-gke.1626000", "InferencePool"),
        ("nvidia-b200", "autopilot", "1.34.0-gke.1626000", "InferencePool"),
    ],
)
def test_a_region_needs_the_version_of_gke_that_its_newest_gpu_asks_for(
    gpu: str, mode: str, version: str, because: str
) -> None:
    rung = {"accelerator": gpu, "count": 8, "provisioning": "spot"}
    edits: list[dict[str, Any]] = [
        {"at": ["capacity", "interactive", "rungs"], "value": [rung]},
        {"at": ["models", MODEL, "replicas"], "value": {"min": 1, "max": 2}},
        {"at": ["models", MODEL, "form"], "value": "single"},
        {"at": ["regions", REGION, "mode"], "value": mode},
    ]
    if mode == "autopilot":
        edits.append({"at": ["regions", REGION, "system_pool"], "remove": True})
    plan = resolve(parse(json.dumps(edited("local", edits))))
    assert needed(plan.regions[REGION]) == (version, because)
