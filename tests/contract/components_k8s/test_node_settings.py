"""Kubelet, kernel, image and local SSDs of nodes, in compute classes and node pools."""

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from gke_inference import AcceleratorPool, ComputeClass
from gke_inference.catalogue.sysctls import RANGES
from tests.contract.components_k8s import crds
from twin.cluster import controlplane
from twin.providers.gcp.checks.validate import validate_inputs

CLASS = "kubernetes:cloud.google.com/v1:ComputeClass"
POOL = "gcp:container/nodePool:NodePool"
L4: Any = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}
V6E: Any = {"accelerator": "tpu-v6e", "topology": "2x2", "provisioning": "on-demand"}
H100: Any = {"accelerator": "nvidia-h100-80gb", "count": 8, "provisioning": "spot"}
NODES: dict[str, Any] = {
    "allowed_unsafe_sysctls": ["net.*"],
    "cpu_cfs_quota": False,
    "cpu_manager_policy": "static",
    "hugepages_2mib": 1024,
    "pod_pids_limit": 4096,
    "sysctls": {
        "kernel.shmmax": 68719476736,
        "net.core.somaxconn": 4096,
        "net.ipv4.tcp_rmem": "4096 87380 6291456",
    },
}


def of_class(recorder, nodes: dict[str, Any], *rungs: Any, **more: Any) -> dict[str, Any]:
    args: Any = {
        "class_name": "chat",
        "node_service_account": "nodes@acme.iam.gserviceaccount.com",
        "nodes": nodes,
        "rungs": list(rungs or (L4,)),
        **more,
    }
    recorder.run(lambda: ComputeClass("chat", args).class_name)
    made = recorder.one(CLASS).inputs
    crds.check(made)
    return made["spec"]


def of_pool(recorder, rung: Any, **more: Any) -> dict[str, Any]:
    args: Any = {
        "cluster": "prod",
        "location": "us-central1",
        "max_nodes": 4,
        "node_service_account": "nodes@acme.iam.gserviceaccount.com",
        "pool_name": "pool",
        "project": "acme",
        "rung": rung,
        **more,
    }
    recorder.run(lambda: AcceleratorPool("pool", args).pool_name)
    inputs = recorder.one(POOL).inputs
    assert validate_inputs(POOL, inputs) == []
    return inputs


def test_a_class_has_the_settings_for_all_its_rungs(recorder):
    spec = of_class(recorder, NODES)
    assert spec["priorityDefaults"] == {
        "nodeSystemConfig": {
            "kubeletConfig": {
                "allowedUnsafeSysctls": ["net.*"],
                "cpuCfsQuota": False,
                "cpuManagerPolicy": "static",
                "podPidsLimit": 4096,
            },
            "linuxNodeConfig": {
                "hugepageConfig": {"hugepage_size2m": 1024},
                "sysctls": {
                    "kernel.shmmax": "68719476736",
                    "net.core.somaxconn": 4096,
                    "net.ipv4.tcp_rmem": "4096 87380 6291456",
                },
            },
        }
    }
    assert "imageType" not in spec["nodePoolConfig"]


def test_nodes_with_ubuntu_do_not_stream_images(recorder):
    config = of_class(recorder, {"image": "ubuntu"})["nodePoolConfig"]
    assert config["imageType"] == "ubuntu_containerd"
    assert config["imageStreaming"] == {"enabled": False}


def test_a_class_without_settings_is_as_before(recorder):
    spec = of_class(recorder, {"image": "cos"})
    assert "priorityDefaults" not in spec
    assert spec["nodePoolConfig"]["imageType"] == "cos_containerd"


def test_a_pool_has_the_settings_with_kernel_parameters_as_text(recorder):
    config = of_pool(recorder, L4, nodes=NODES)["nodeConfig"]
    assert config["kubeletConfig"] == {
        "allowedUnsafeSysctls": ["net.*"],
        "cpuCfsQuota": False,
        "cpuManagerPolicy": "static",
        "podPidsLimit": 4096,
    }
    assert config["linuxNodeConfig"] == {
        "hugepagesConfig": {"hugepageSize2m": 1024},
        "sysctls": {
            "kernel.shmmax": "68719476736",
            "net.core.somaxconn": "4096",
            "net.ipv4.tcp_rmem": "4096 87380 6291456",
        },
    }


@pytest.mark.parametrize(
    ("nodes", "block"),
    [
        ({}, "ephemeralStorageLocalSsdConfig"),
        ({"local_ssd_use": "ephemeral"}, "ephemeralStorageLocalSsdConfig"),
        ({"local_ssd_use": "block"}, "localNvmeSsdBlockConfig"),
    ],
)
def test_all_local_ssds_of_the_machine_have_one_use(recorder, nodes, block):
    config = of_pool(recorder, H100, nodes=nodes)["nodeConfig"]
    found = {name: value for name, value in config.items() if "Ssd" in name}
    assert found == {block: {"localSsdCount": 16}}


def test_a_blue_green_upgrade_has_batches_and_pauses(recorder):
    settings = {"batch_nodes": 2, "batch_soak_seconds": 60, "soak_seconds": 600}
    assert of_pool(recorder, L4, blue_green=settings)["upgradeSettings"] == {
        "blueGreenSettings": {
            "nodePoolSoakDuration": "600s",
            "standardRolloutPolicy": {"batchNodeCount": 2, "batchSoakDuration": "60s"},
        },
        "strategy": "BLUE_GREEN",
    }


@pytest.mark.parametrize(
    ("nodes", "rung", "path", "rule"),
    [
        ({"pod_pids_limit": 1023}, L4, "nodes.podPidsLimit", "1024"),
        (
            {"sysctls": {"net.core.somaxconn": 127}},
            L4,
            "nodes.sysctls",
            "must be 128 to 2147483647, got 127",
        ),
        (
            {"sysctls": {"net.ipv4.tcp_rmem": "4096"}},
            L4,
            "nodes.sysctls",
            "must be three positive numbers such as '4096 87380 6291456', got '4096'",
        ),
        ({"sysctls": {"kernel.panic": 1}}, L4, "nodes.sysctls", "only parameters that GKE sets"),
        (
            {"allowed_unsafe_sysctls": ["vm.swappiness"]},
            L4,
            "nodes.allowedUnsafeSysctls",
            "must be in kernel.shm",
        ),
        ({"image": "ubuntu"}, V6E, "nodes.image", "must be cos or unset for tpu-v6e"),
        ({"hugepages_1gib": 1}, V6E, "nodes.hugepages1gib", "only a2, a3, g2 have pages of 1 GiB"),
        (
            {"hugepages_1gib": 10},
            {**L4, "machine_type": "g2-standard-4"},
            "nodes.hugepages1gib",
            "must be at most 9.6 GiB with all huge pages, 60 % of the memory of g2-standard-4",
        ),
        ({"local_ssd_use": "ephemeral"}, L4, "nodes.localSsdUse", "which has no local SSDs"),
        ({"local_ssd_use": "block"}, H100, "nodes.localSsdUse", "a compute class has no raw disks"),
    ],
)
def test_settings_that_gke_does_not_take_are_refused(recorder, nodes, rung, path, rule):
    with pytest.raises(pulumi.InputPropertyError) as error:
        of_class(recorder, nodes, rung)
    assert path.lower() in str(error.value).lower()
    assert rule in str(error.value)


def test_ubuntu_and_pools_with_secure_boot_exclude_each_other(recorder):
    with pytest.raises(pulumi.InputPropertyError, match="whose nodes have secure boot"):
        of_pool(recorder, L4, nodes={"image": "ubuntu"})


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"max_surge": 1}, "must not be set with blueGreen"),
        ({"rung": {**L4, "provisioning": "flex-start"}}, "flex-start nodes, which have no second"),
    ],
)
def test_blue_green_upgrades_need_a_second_set_of_machines(recorder, more, rule):
    with pytest.raises(pulumi.InputPropertyError, match=rule):
        of_pool(recorder, **{"rung": L4, "blue_green": {}, **more})


def test_the_ranges_of_kernel_parameters_are_those_of_gkes_own_schema():
    file = Path(controlplane.__file__).parent / "crds/cloud.google.com_computeclasses.yaml"
    version = yaml.load(file.read_text(), yaml.CSafeLoader)["spec"]["versions"][0]
    node: Any = version["schema"]["openAPIV3Schema"]
    for key in ("spec", "priorityDefaults", "nodeSystemConfig", "linuxNodeConfig", "sysctls"):
        node = node["properties"][key]
    theirs = {
        name: (entry.get("minimum", min(entry.get("enum", [0]))), entry.get("maximum"))
        for name, entry in node["properties"].items()
    }
    for name, (least, most) in RANGES.items():
        assert theirs[name][0] == least, name
        assert theirs[name][1] in (most, None), name
