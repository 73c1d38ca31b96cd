"""What stray pods cannot do: request the chips of a platform without a limit."""

import json
from typing import Any

import pytest

from infra.estimate.chip_limits import KINDS, chip_limits, chips, short_limits
from infra.plan import Plan, RegionPlan, resolve
from infra.reading.load import parse, read
from infra.stack import Platform
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.test_existing import in_a_cluster, in_a_network

TPU, GPU = "requests.google.com/tpu", "requests.nvidia.com/gpu"
CLOSED = {TPU: "0", GPU: "0"}


def limits(deployed: Deployed, platform: Platform) -> dict[str, Any]:
    """Return the hard limits of each ResourceQuota, by namespace and name."""
    quotas = deployed(platform).all("kubernetes:core/v1:ResourceQuota")
    found = [(each.inputs["metadata"], each.inputs["spec"]["hard"]) for each in quotas]
    return {f"{where['namespace']}/{where['name']}": hard for where, hard in found}


def limited(edits: list[dict[str, Any]]) -> dict[str, int]:
    """Return the limits of the only region of a changed `local`, by kind."""
    (region,) = resolve(parse(json.dumps(edited("local", edits)))).regions.values()
    return chip_limits(region)


def test_pods_of_models_may_request_twice_the_largest_chips_of_16_replicas(
    deployed: Deployed,
) -> None:
    assert limits(deployed, read("local")) == {
        "models/accelerators": {TPU: str(2 * 16 * 4), GPU: str(2 * 16)},
        "default/accelerators": CLOSED,
    }


def test_the_limit_follows_the_replicas_of_more_than_16() -> None:
    replicas = {"at": ["models", "llama-3.1-8b", "replicas", "max"], "value": 20}
    # a pair counts its replicas for both kinds, with one more in an update or a buffer
    assert limited([replicas]) == {"gpu": 2 * 42, "tpu": 2 * 42 * 4}


LARGE = {"rungs": [{"accelerator": "nvidia-h100-80gb", "count": 8, "provisioning": "spot"}]}
MEDIUM = {"rungs": [{"accelerator": "nvidia-l4", "count": 2, "provisioning": "spot"}]}
SMALL = {"rungs": [{"accelerator": "nvidia-l4", "count": 1, "provisioning": "spot"}]}
SLICE = {"rungs": [{"accelerator": "tpu-v6e", "topology": "2x2", "provisioning": "spot"}]}


ALL = {"large": LARGE, "medium": MEDIUM, "small": SMALL, "slice": SLICE}


def plan_on(capacity: str, most: int, capacities: dict[str, Any]) -> Plan:
    """Return the plan of `local` with one model on one of some capacities."""
    document = edited("local", [])
    model = document["models"]["llama-3.1-8b"]
    model |= {"capacity": capacity, "replicas": {"min": 1, "max": most}}
    for field in ("form", "fallback"):
        model.pop(field, None)
    document["capacity"] = capacities
    return resolve(Platform.model_validate_json(json.dumps(document)))


def region_on(capacity: str, most: int = 1) -> RegionPlan:
    """Return the region of `local`, with one model on one of four unchanged capacities."""
    (region,) = plan_on(capacity, most, ALL).regions.values()
    return region


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("large", 1), ("small", 1)),  # 8 chips to 1
        (("large", 1), ("medium", 1)),  # 8 chips to 2
        (("large", 15), ("small", 1)),  # also with fewer replicas
        (("large", 1), ("slice", 1)),  # GPU to TPU
        (("slice", 15), ("small", 1)),  # TPU to GPU
    ],
)
def test_old_and_new_pods_fit_into_the_limit_of_the_new_settings(
    before: tuple[str, int], after: tuple[str, int]
) -> None:
    old, new = region_on(*before), region_on(*after)
    both = {kind: chips(old)[kind] + chips(new)[kind] for kind in KINDS}
    assert max(chips(old).values()) > 0
    assert all(both[kind] <= limit for kind, limit in chip_limits(new).items())


@pytest.mark.parametrize(
    ("most", "messages"),
    [
        (
            (5, 5),
            [
                "regions.us-central1.chip_limits.gpu: must be at least 48, the chips that old"
                " replicas hold during the rollout, got 32; raise it, and remove it afterwards"
            ],
        ),
        ((3, 3), []),  # 4 replicas with 8 chips fit
        ((5, 1), []),  # the autoscaler deletes all but 1 first
    ],
)
def test_a_larger_capacity_is_not_removed_from_under_the_replicas_on_it(
    most: tuple[int, int], messages: list[str]
) -> None:
    old = plan_on("large", most[0], {"large": LARGE})
    new = plan_on("small", most[1], {"small": SMALL})
    assert list(short_limits(old, new)) == messages


def test_node_pools_that_can_have_more_raise_the_limit() -> None:
    document = edited("local", [])
    (name,) = document["capacity"]
    pools = {"at": ["capacity", name, "node_pools"], "value": {"max_nodes": 100}}
    model = ["models", "llama-3.1-8b"]
    one_form = [
        {"at": [*model, "form"], "value": "dual-container"},
        {"at": [*model, "replicas", "standby"], "remove": True},
    ]
    assert limited([pools, *one_form])["tpu"] >= 100 * 4


def test_a_stack_sets_its_own_limit_or_turns_limits_off(deployed: Deployed) -> None:
    (name,) = read("local").regions
    at = ["regions", name, "chip_limits"]
    assert limited([{"at": at, "value": {"gpu": 40}}]) == {"gpu": 40, "tpu": 128}
    off = edited("local", [{"at": at, "value": {"enabled": False}}])
    assert limits(deployed, parse(json.dumps(off))) == {}


def test_nothing_is_limited_in_what_exists(deployed: Deployed) -> None:
    assert limits(deployed, in_a_cluster()) == {}
    assert "default/accelerators" in limits(deployed, in_a_network())
