"""Queues of a stack: what a region builds for them, what they may ask of quotas, and their cost."""

import json
from typing import Any

import pytest

from infra.estimate.quota_needs import needs
from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.reading.load import parse
from tests.contract.infra.broken_stacks import edited

SPOT = {"accelerator": "tpu-v6e", "topology": "2x2", "provisioning": "spot"}
FLEX = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "flex-start", "max_run_hours": 6}
QUEUE = {
    "flavors": [{"capacity": "jobs-spot", "chips": 16}, {"capacity": "jobs-flex", "chips": 3}],
    "teams": {
        "evals": {"chips": {"jobs-spot": 8}, "lend": 4},
        "research": {"chips": {"jobs-spot": 4, "jobs-flex": 2}, "borrow": 8},
    },
}
KIND = "kubernetes:kueue.x-k8s.io/v1beta2:"


GANG = {
    "flavors": [{"capacity": "jobs-gang", "chips": 4, "queued": True}],
    "teams": {"research": {"chips": {"jobs-gang": 4}}},
}
GANG_CAPACITY = {"node_pools": {"max_nodes": 4}, "rungs": [FLEX]}


def platform_with(**queues: Any) -> Any:
    edits = [
        {"at": ["capacity", "jobs-spot"], "value": {"rungs": [SPOT]}},
        {"at": ["capacity", "jobs-flex"], "value": {"rungs": [FLEX]}},
        {"at": ["queues"], "value": queues},
    ]
    return parse(json.dumps(edited("dev", edits)))


def several() -> Any:
    """Return a stack with three queues, one for jobs whose nodes come together; tests share it."""
    queues = {
        "now": {"flavors": QUEUE["flavors"][:1], "teams": {"evals": {}}, "preempt": False},
        "later": {"flavors": QUEUE["flavors"][1:], "teams": {"evals": {}}, "preempt": True},
        "gang": GANG,
    }
    edits = [
        {"at": ["capacity", "jobs-spot"], "value": {"rungs": [SPOT]}},
        {"at": ["capacity", "jobs-flex"], "value": {"rungs": [FLEX]}},
        {"at": ["capacity", "jobs-gang"], "value": GANG_CAPACITY},
        {"at": ["queues"], "value": queues},
    ]
    return parse(json.dumps(edited("dev", edits)))


def one(found: Any, name: str) -> Any:
    """Return the only object of a name."""
    (only,) = [each.inputs for each in found if each.inputs["metadata"]["name"] == name]
    return only


def test_each_team_has_its_chips_and_the_rest_is_for_all(deployed: Any) -> None:
    seen = deployed(platform_with(chips=QUEUE))
    queues = seen.objects(f"{KIND}ClusterQueue")
    assert list(queues) == ["chips-evals", "chips-research"]
    assert queues["chips-evals"]["spec"]["resourceGroups"] == [
        {
            "coveredResources": ["nvidia.com/gpu"],
            "flavors": [
                {
                    "name": "jobs-flex",
                    "resources": [{"lendingLimit": 0, "name": "nvidia.com/gpu", "nominalQuota": 0}],
                }
            ],
        },
        {
            "coveredResources": ["google.com/tpu"],
            "flavors": [
                {
                    "name": "jobs-spot",
                    "resources": [{"lendingLimit": 4, "name": "google.com/tpu", "nominalQuota": 8}],
                }
            ],
        },
    ]
    (cohort,) = seen.all(f"{KIND}Cohort")
    rest = [
        group["flavors"][0]["resources"][0] for group in cohort.inputs["spec"]["resourceGroups"]
    ]
    assert [each["nominalQuota"] for each in rest] == [1, 4]


def test_jobs_of_a_flavor_go_to_its_compute_class(deployed: Any) -> None:
    seen = deployed(platform_with(chips=QUEUE))
    flavors = seen.objects(f"{KIND}ResourceFlavor")
    classes = {
        each.inputs["metadata"]["name"]
        for each in seen.all("kubernetes:cloud.google.com/v1:ComputeClass")
    }
    assert set(flavors) == {"jobs-spot", "jobs-flex"} <= classes
    spec = flavors["jobs-spot"]["spec"]
    assert spec["nodeLabels"] == {"cloud.google.com/compute-class": "jobs-spot"}
    assert {each["key"] for each in spec["tolerations"]} == {
        "cloud.google.com/compute-class",
        "cloud.google.com/gke-spot",
        "google.com/tpu",
    }


def test_a_team_of_two_queues_has_one_namespace_with_a_way_into_each(deployed: Any) -> None:
    seen = deployed(several())
    ways = [
        each.inputs
        for each in seen.all(f"{KIND}LocalQueue")
        if each.inputs["metadata"]["namespace"] == "jobs-evals"
    ]
    assert {each["metadata"]["name"]: each["spec"]["clusterQueue"] for each in ways} == {
        "later": "later-evals",
        "now": "now-evals",
    }
    spaces = [each.inputs["metadata"]["name"] for each in seen.all("kubernetes:core/v1:Namespace")]
    assert spaces.count("jobs-evals") == 1


def test_chips_are_taken_back_where_the_stack_says_so(deployed: Any) -> None:
    found = {
        each.inputs["metadata"]["name"]: each.inputs["spec"]["preemption"]["reclaimWithinCohort"]
        for each in deployed(several()).all(f"{KIND}ClusterQueue")
    }
    assert found == {"later-evals": "Any", "now-evals": "Never", "gang-research": "Any"}


def test_kueue_is_there_where_a_queue_is(deployed: Any) -> None:
    def kueue(platform: Any) -> bool:
        spaces = deployed(platform).all("kubernetes:core/v1:Namespace")
        return "kueue-system" in {each.inputs["metadata"]["name"] for each in spaces}

    assert kueue(platform_with(chips=QUEUE))
    assert not kueue(platform_with())
    used = {each.name for each in resolve(platform_with()).regions["us-central1"].used_capacity}
    assert used == {"either-chip", "small"}


def test_the_chips_of_a_queue_count_in_the_quota_of_its_region() -> None:
    found = {
        need.metric.name: {part.who: part.amount for part in need.parts}
        for need in needs(resolve(platform_with(chips=QUEUE)))
    }
    assert found["PREEMPTIBLE_TPU_V6E"]["queue chips"] == 16
    assert found["PREEMPTIBLE_NVIDIA_L4_GPUS"]["queue chips"] == 3
    assert found["INSTANCES"]["queue chips"] == 4 + 3


def test_the_chips_of_a_queue_cost_nothing_while_no_job_runs() -> None:
    parts = stack_cost(resolve(platform_with(chips=QUEUE))).parts
    (spot,) = [part for part in parts if "tpu-v6e 2x2 spot, while jobs run" in part.what]
    assert spot.quantity == "0/0/4 nodes"
    assert (spot.minimum.value, spot.expected.value) == (0, 0)
    assert spot.maximum.value > 0


def test_kueue_is_among_the_images_of_a_stack_with_queues() -> None:
    assert "queue_operator" in resolve(platform_with(chips=QUEUE)).images.needed
    assert "queue_operator" not in resolve(platform_with()).images.needed


def test_nodes_that_come_together_are_of_a_pool_with_queued_provisioning(deployed: Any) -> None:
    seen = deployed(several())
    pools = {
        each.inputs["name"]: each.inputs for each in seen.all("gcp:container/nodePool:NodePool")
    }
    assert pools["jobs-gang-0"]["queuedProvisioning"] == {"enabled": True}
    assert pools["jobs-gang-0"]["nodeConfig"]["labels"] == {"cloud.google.com/gke-queued": "true"}
    classes = seen.all("kubernetes:cloud.google.com/v1:ComputeClass")
    assert "jobs-gang" not in {each.inputs["metadata"]["name"] for each in classes}
    flavor = one(seen.all(f"{KIND}ResourceFlavor"), "jobs-gang")
    assert flavor["spec"]["nodeLabels"] == {"cloud.google.com/gke-nodepool": "jobs-gang-0"}
    queue = one(seen.all(f"{KIND}ClusterQueue"), "gang-research")
    assert queue["spec"]["admissionChecksStrategy"] == {
        "admissionChecks": [{"name": "gang-jobs-gang", "onFlavors": ["jobs-gang"]}]
    }
    (config,) = seen.all(f"{KIND}ProvisioningRequestConfig")
    found = config.inputs["spec"]
    assert found["managedResources"] == ["nvidia.com/gpu"]
    assert found["parameters"] == {"maxRunDurationSeconds": "21600"}
    assert found["provisioningClassName"] == "queued-provisioning.gke.io"


@pytest.mark.parametrize("network", [None, "rdma"])
def test_jobs_can_ask_for_one_block_where_nodes_come_together(deployed: Any, network: Any) -> None:
    flex = {**FLEX, "accelerator": "nvidia-h200-141gb", "count": 8}
    if network is not None:
        flex |= {"network": network, "zones": ["us-central1-b"]}
    capacity = {"node_pools": {"max_nodes": 4}, "rungs": [flex]}
    flavor = {"capacity": "jobs-gang", "chips": 32, "queued": True, "topology": True}
    queue = {"flavors": [flavor], "teams": {"research": {"chips": {"jobs-gang": 32}}}}
    edits = [
        {"at": ["capacity", "jobs-gang"], "value": capacity},
        {"at": ["queues"], "value": {"gang": queue}},
    ]
    seen = deployed(parse(json.dumps(edited("dev", edits))))
    (found,) = seen.all(f"{KIND}ResourceFlavor")
    assert found.inputs["spec"]["topologyName"] == "gang"
    assert len(seen.all(f"{KIND}Topology")) == 1
