"""What stray pods cannot do: request the chips of a platform without a limit."""

import json
from typing import Any

import pytest

from infra.plan import resolve
from infra.quota.claims import chips
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


def test_pods_of_models_may_request_twice_the_chips_of_all_replicas_at_once(
    deployed: Deployed,
) -> None:
    # 4 replicas and a buffer of 1 on four chips, or 4 and 1 more in an update on one GPU
    assert limits(deployed, read("local")) == {
        "models/accelerators": {TPU: str(2 * (4 + 1) * 4), GPU: str(2 * (4 + 1))},
        "default/accelerators": CLOSED,
    }


@pytest.mark.parametrize("most", [2, 7])
def test_the_limit_follows_the_largest_number_of_replicas(most: int) -> None:
    replicas = {"at": ["models", "llama-3.1-8b", "replicas", "max"], "value": most}
    (region,) = resolve(parse(json.dumps(edited("local", [replicas])))).regions.values()
    assert chips(region) == {"gpu": 2 * (most + 1), "tpu": 2 * (most + 1) * 4}


def test_nothing_is_limited_in_what_exists(deployed: Deployed) -> None:
    assert limits(deployed, in_a_cluster()) == {}
    assert "default/accelerators" in limits(deployed, in_a_network())
