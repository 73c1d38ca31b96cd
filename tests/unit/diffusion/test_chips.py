"""Each process of the image server uses one chip of its pod."""

from dataclasses import replace

from gke_inference.catalogue.rungs import check_rung
from gke_inference.serving.dual_container import tpu_environment
from gke_inference.serving.hardware import Hardware
from workloads.diffusion.config import BaseModel, Settings
from workloads.diffusion.worker import chip_environment

SETTINGS = Settings(model="flux", folder="/flux", workers=4)


def of_pod():
    """Return the variables that GKE's device plugin sets in a pod with a 2x2 of TPU v6e."""
    rung = check_rung(
        {"accelerator": "tpu-v6e", "topology": "2x2", "provisioning": "on-demand"}, "rung"
    )
    node = Hardware(
        chips=4,
        compute_class="c",
        hosts=1,
        kind="tpu",
        pipeline_parallel=1,
        ram_gib=1,
        rungs=(rung,),
        tensor_parallel=4,
        topology="2x2",
        vcpus=1,
    )
    return {each["name"]: each["value"] for each in tpu_environment(node) if "value" in each}


def test_a_process_sees_its_chip_and_nothing_that_describes_the_whole_node():
    inherited = {**of_pod(), "PATH": "/bin"}
    assert {"2,2,1", "2x2", "v6e-4"} <= set(inherited.values())
    found = chip_environment(SETTINGS, 2, inherited)
    assert not {"2,2,1", "2x2", "v6e-4"} & set(found.values())
    assert found["TPU_VISIBLE_CHIPS"] == "2"
    assert found["TPU_CHIPS_PER_PROCESS_BOUNDS"] == found["TPU_PROCESS_BOUNDS"] == "1,1,1"
    assert (found["PATH"], found["TPU_WORKER_HOSTNAMES"]) == ("/bin", "localhost")


def test_models_with_chips_of_their_own_are_on_the_chips_in_order():
    further = tuple(BaseModel(name, f"/{name}", chips=1) for name in ("dev", "krea"))
    shared = replace(SETTINGS, base_models=tuple(replace(each, chips=0) for each in further))
    assert shared.held == (("flux", "dev", "krea"),) * 4
    own = replace(SETTINGS, base_models=further, chips=2)
    assert own.held == (("flux",), ("flux",), ("dev",), ("krea",))


def test_processes_of_a_pod_share_no_port():
    of = [chip_environment(SETTINGS, number, {}) for number in range(4)]
    assert len({each["TPU_MESH_CONTROLLER_ADDRESS"] for each in of}) == 4
    for each in of:
        port = each["TPU_MESH_CONTROLLER_PORT"]
        assert each["TPU_MESH_CONTROLLER_ADDRESS"] == f"localhost:{port}"
