"""A server's pod fits the memory of its node, volumes in memory included."""

import pytest

from gke_inference.catalogue.input_error import InputError
from gke_inference.intent.host_memory import room_gib
from gke_inference.serving.model_objects import deployments
from tests.model_plans import planned
from twin.cluster.nodes.node_objects import NodeShape, allocatable
from twin.world.machines import machine

SIDECAR = "gke-gcsfuse/memory"


def template(args):
    (found,) = deployments(planned(args)).values()
    return found["spec"]["template"]


def cached(gpu_only, machine_type, **changes):
    """A model whose engine cannot stream, so that its weights are cached in memory: 21 GiB."""
    rung = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}
    rung["machine_type"] = machine_type
    changes = {"adapters": {}, "engine": "sglang", "rungs": [rung], **changes}
    return {**gpu_only, "size": {"parameters_billion": 8.03}, **changes}


def volumes_gib(spec):
    """The sizes of the volumes in memory, by name."""
    memory = [each for each in spec["volumes"] if each.get("emptyDir", {}).get("medium")]
    return {each["name"]: int(each["emptyDir"]["sizeLimit"][:-2]) for each in memory}


def test_a_file_cache_larger_than_the_memory_of_the_machine_is_refused(gpu_only):
    with pytest.raises(InputError) as refused:
        template(cached(gpu_only, "g2-standard-4"))
    assert str(refused.value) == (
        "rungs: must have 30 GiB of memory for the pod on every rung (8 for the engine, 2 of"
        " shared memory, 20 for the file cache); rungs[0]: g2-standard-4 has 11 for pods"
    )


def test_a_pod_requests_the_memory_that_its_file_cache_may_take(gpu_only):
    made = template(cached(gpu_only, "g2-standard-12"))
    assert volumes_gib(made["spec"]) == {"gke-gcsfuse-cache": 19, "shared-memory": 2}
    notes = made["metadata"]["annotations"]
    assert (notes[f"{SIDECAR}-request"], notes[f"{SIDECAR}-limit"]) == ("20Gi", "0")
    (engine,) = made["spec"]["containers"]
    node = allocatable(NodeShape(machine("g2-standard-12"), "l4"))
    requested = int(engine["resources"]["requests"]["memory"][:-2])
    assert requested == 21
    assert (requested + 20) * 1024 <= int(node["memory"].removesuffix("Mi"))


def test_limits_of_the_sidecar_are_numbers_on_autopilot(gpu_only):
    notes = template(cached(gpu_only, "g2-standard-12", autopilot=True))["metadata"]["annotations"]
    assert {key: value for key, value in notes.items() if "gcsfuse" in key} == {
        "gke-gcsfuse/cpu-limit": "2",
        "gke-gcsfuse/ephemeral-storage-limit": "5Gi",
        "gke-gcsfuse/memory-limit": "20Gi",
        "gke-gcsfuse/volumes": "true",
    }


def test_limits_of_the_sidecar_are_numbers_on_autopilot_for_a_folder_without_a_cache(gpu_only):
    live = {"source": "gs://acme-models/llama/live-adapters"}
    made = template({**gpu_only, "adapters": {}, "autopilot": True, "live_adapters": live})
    limits = {
        key: value for key, value in made["metadata"]["annotations"].items() if "-limit" in key
    }
    assert limits == {
        "gke-gcsfuse/cpu-limit": "2",
        "gke-gcsfuse/ephemeral-storage-limit": "5Gi",
        "gke-gcsfuse/memory-limit": "1Gi",
    }


def test_a_pod_without_a_file_cache_requests_as_much_of_its_node_as_before(gpu_only):
    made = template(gpu_only)
    notes = made["metadata"]["annotations"]
    assert f"{SIDECAR}-request" not in notes
    assert made["spec"]["containers"][0]["resources"]["requests"]["memory"] == "33Gi"


@pytest.mark.parametrize("name", ["g2-standard-4", "g2-standard-96", "ct6e-standard-8t"])
def test_the_room_for_pods_is_within_what_gke_offers_them(name):
    item = machine(name)
    offered = int(allocatable(NodeShape(item, "pool"))["memory"].removesuffix("Mi")) / 1024
    assert 0.93 * offered - 2 < room_gib(item.memory_gib) < offered
