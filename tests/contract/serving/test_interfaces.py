"""The pods of groups whose nodes communicate by GPUDirect-TCPX or -TCPXO."""

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.node_networks import interface_network
from gke_inference.catalogue.rungs import check_rung
from gke_inference.catalogue.versions import image
from gke_inference.operators.accelerator_interface_pods import plugin_installer
from gke_inference.serving.model_objects import claims, deployments
from tests.model_plans import planned as plan_of

PAIR: dict[str, Any] = {
    "accelerator": "nvidia-h100-mega-80gb",
    "hosts": 2,
    "network": "tcpxo",
    "node_pools": ["nodes-0"],
    "provisioning": "spot",
}


HIGH: dict[str, Any] = {
    **PAIR,
    "accelerator": "nvidia-h100-80gb",
    "count": 8,
    "network": "tcpx",
}


@pytest.fixture
def on_pairs(gpu_only) -> dict[str, Any]:
    return {**gpu_only, "size": {"parameters_billion": 405.0, "bits": 8}, "rungs": [PAIR]}


@pytest.fixture
def on_a3_high(on_pairs) -> dict[str, Any]:
    return {**on_pairs, "rungs": [HIGH]}


def planned(args: dict[str, Any]) -> Any:
    return plan_of(args)


def pods(args: dict[str, Any]) -> list[dict[str, Any]]:
    template = deployments(planned(args))["gpu"]["spec"]["leaderWorkerTemplate"]
    return [template["leaderTemplate"], template["workerTemplate"]]


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container["env"]}


def test_every_pod_of_a_group_has_an_interface_on_each_network_beside_its_own(on_pairs):
    for pod in pods(on_pairs):
        notes = pod["metadata"]["annotations"]
        assert notes["networking.gke.io/default-interface"] == "eth0"
        assert json.loads(notes["networking.gke.io/interfaces"]) == [
            {"interfaceName": "eth0", "network": "default"},
            *({"interfaceName": f"eth{at}", "network": f"tcpxo-{at}"} for at in range(1, 9)),
        ]
    assert claims(planned(on_pairs)) == {}


def test_the_daemon_starts_before_the_engine_and_gets_the_devices_of_the_node(on_pairs):
    for pod in pods(on_pairs):
        (daemon,) = pod["spec"]["initContainers"]
        assert daemon["name"] == "tcpxo-daemon"
        assert daemon["restartPolicy"] == "Always"
        assert daemon["startupProbe"]["exec"]["command"] == ["cat", "/run/health-check"]
        assert variables(daemon)["HEALTH_CHECK_LOG_FILE"] == "/run/health-check"
        assert daemon["securityContext"]["capabilities"]["add"] == ["NET_ADMIN", "NET_BIND_SERVICE"]
        listed = pod["metadata"]["annotations"]["devices.gke.io/container.tcpxo-daemon"]
        assert listed.splitlines() == [
            *(f"- path: /dev/nvidia{at}" for at in range(8)),
            "- path: /dev/nvidiactl",
            "- path: /dev/nvidia-uvm",
            "- path: /dev/dmabuf_import_helper",
        ]


@pytest.mark.parametrize("is_first_boot", [True, False])
def test_the_daemon_waits_until_the_installer_has_finished_on_its_node_also_after_a_reboot(
    on_pairs: dict[str, Any], tmp_path: Path, is_first_boot: bool
):
    libraries, built = tmp_path / "lib64", tmp_path / "built"
    devices = tmp_path / "aperture_devices"
    for folder in (libraries, built):
        folder.mkdir()
    (built / "libnccl-net.so").write_text("")
    (libraries / ".tcpxo-plugin-v1.0.14").write_text("")
    program = tmp_path / "program.sh"
    program.write_text("#!/bin/sh\necho ran $*\n")
    here = {
        "/usr/local/nvidia/lib64": libraries,
        "/var/lib/tcpxo/lib64": built,
        "/scripts/container_entry.sh": program,
        "/fts/entrypoint_rxdm_container.sh": program,
        "/dev/aperture_devices": devices,
        "sleep 2\n": "sleep 0.02\n",
    }

    def bind() -> None:  # what the first container of the installer does on a real node
        (devices / "0000:06:00.0").mkdir(parents=True)
        (devices / "0000:06:00.0" / "resource0").write_text("")

    if not is_first_boot:  # the plug-in outlives a reboot, and what was bound below /dev does not
        (libraries / f".tcpxo-plugin-{image('tcpxo_plugin').tag}").write_text("")

    def script(container: dict[str, Any]) -> str:
        (text,) = container["args"]
        for path, stand_in in here.items():
            text = text.replace(path, str(stand_in))
        return text

    (daemon,) = pods(on_pairs)[0]["spec"]["initContainers"]
    (_, installer) = plugin_installer(interface_network("tcpxo"))["initContainers"]
    waiting = subprocess.Popen(
        ["sh", "-c", script(daemon)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert waiting.stdout is not None
        assert waiting.stdout.readline().startswith(f"waiting for {libraries}/.tcpxo-plugin-v")
        bind()
        if is_first_boot:
            subprocess.run(["sh", "-c", script(installer)], check=True, capture_output=True)
        assert waiting.communicate(timeout=30)[0].endswith("ran --num_hops=2\n")
    finally:
        waiting.kill()
    if not is_first_boot:
        return
    (mark,) = libraries.glob(".tcpxo-plugin-*")  # the one of the earlier release is gone
    assert (libraries / "libnccl-net.so").exists()
    assert mark.name == f".tcpxo-plugin-{image('tcpxo_plugin').tag}"


def test_the_engine_has_the_plug_in_the_apertures_and_the_settings_of_the_release(on_pairs):
    for pod in pods(on_pairs):
        engine = pod["spec"]["containers"][0]
        mounts = {each["name"]: each["mountPath"] for each in engine["volumeMounts"]}
        assert mounts["aperture-devices"] == "/dev/aperture_devices"
        assert mounts["nvidia"] == "/usr/local/nvidia/lib64"
        found = variables(engine)
        assert found["NCCL_FASTRAK_IFNAME"] == "eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8"
        assert found["NCCL_FASTRAK_CTRL_DEV"] == found["NCCL_SOCKET_IFNAME"] == "eth0"
        assert found["NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY"] == "/dev/aperture_devices"
        assert found["NCCL_NVLSTREE_MAX_CHUNKSIZE"] == "131072"  # the plug-in aborts without it
        assert found["LD_LIBRARY_PATH"].startswith("/usr/local/nvidia/lib64:")
        assert engine["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }


def test_the_pod_says_why_it_mounts_folders_of_its_node(on_pairs):
    for pod in pods(on_pairs):
        folders = {
            each["name"]: each["hostPath"]["path"]
            for each in pod["spec"]["volumes"]
            if "hostPath" in each
        }
        assert folders == {
            "aperture-devices": "/dev/aperture_devices",
            "nvidia": "/home/kubernetes/bin/nvidia/lib64",
            "proc-sys": "/proc/sys",
            "sys": "/sys",
        }
        assert pod["metadata"]["annotations"]["gke-inference/host-access-because"]


def test_a_users_own_setting_of_nccl_takes_precedence(on_pairs):
    for pod in pods({**on_pairs, "settings": {"engine_env": {"NCCL_PROTO": "Simple"}}}):
        engine = pod["spec"]["containers"][0]
        found = [each["value"] for each in engine["env"] if each["name"] == "NCCL_PROTO"]
        assert found == ["Simple"]


def test_the_pods_of_a_group_prefer_one_zone_and_nodes_in_one_block(on_pairs):
    for pod in pods(on_pairs):
        near = pod["spec"]["affinity"]["podAffinity"]
        assert "requiredDuringSchedulingIgnoredDuringExecution" not in near
        terms = near["preferredDuringSchedulingIgnoredDuringExecution"]
        found = [(each["weight"], each["podAffinityTerm"]["topologyKey"]) for each in terms]
        assert found == [
            (100, "topology.kubernetes.io/zone"),
            (20, "cloud.google.com/gce-topology-block"),
            (10, "cloud.google.com/gce-topology-subblock"),
        ]


def test_the_pods_of_a_ray_cluster_have_the_interfaces_too(on_pairs):
    made = deployments(planned({**on_pairs, "spanning": "kuberay"})).values()
    (cluster, *_) = [obj for obj in made if obj["kind"] == "RayCluster"]
    for group in (cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]):
        pod = group["template"]
        assert "networking.gke.io/interfaces" in pod["metadata"]["annotations"]
        assert [each["name"] for each in pod["spec"]["initContainers"]] == ["tcpxo-daemon"]


def test_a_pod_of_a3_high_has_four_interfaces_and_devices_without_the_helper_of_a3_mega(on_a3_high):
    for pod in pods(on_a3_high):
        notes = pod["metadata"]["annotations"]
        assert json.loads(notes["networking.gke.io/interfaces"]) == [
            {"interfaceName": "eth0", "network": "default"},
            *({"interfaceName": f"eth{at}", "network": f"tcpx-{at}"} for at in range(1, 5)),
        ]
        assert notes["devices.gke.io/container.tcpx-daemon"].splitlines() == [
            *(f"- path: /dev/nvidia{at}" for at in range(8)),
            "- path: /dev/nvidiactl",
            "- path: /dev/nvidia-uvm",
        ]


def test_the_engine_and_the_daemon_of_tcpx_share_a_folder_of_sockets(on_a3_high):
    for pod in pods(on_a3_high):
        (daemon,), engine = pod["spec"]["initContainers"], pod["spec"]["containers"][0]
        assert daemon["securityContext"]["capabilities"]["add"] == ["NET_ADMIN"]
        assert "--uds_path /run/tcpx " in daemon["args"][0]
        for container in (daemon, engine):
            mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
            assert mounts["/run/tcpx"] == "tcpx-socket"
        assert {"emptyDir": {}, "name": "tcpx-socket"} in pod["spec"]["volumes"]
        found = variables(engine)
        assert found["NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"] == "/run/tcpx"
        assert found["NCCL_GPUDIRECTTCPX_SOCKET_IFNAME"] == "eth1,eth2,eth3,eth4"
        assert not any(name.startswith("NCCL_FASTRAK") for name in found)


def test_the_daemon_of_tcpx_is_ready_when_the_sockets_of_all_gpus_are_there(
    on_a3_high, tmp_path: Path
):
    (daemon,) = pods(on_a3_high)[0]["spec"]["initContainers"]
    command = [
        part.replace("/run/tcpx", str(tmp_path))
        for part in daemon["startupProbe"]["exec"]["command"]
    ]

    def is_ready() -> bool:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    assert not is_ready()
    open_sockets = [socket.socket(socket.AF_UNIX) for _ in range(9)]
    names = ["rx_rule_manager", *(f"get_gpu_metadata_0000:0{at}:00.0" for at in range(8))]
    for at, (each, name) in enumerate(zip(open_sockets, names, strict=True)):
        assert not is_ready(), at
        each.bind(str(tmp_path / name))
    assert is_ready()
    for each in open_sockets:
        each.close()


def test_the_installer_of_tcpx_leaves_out_its_old_nccl_so_engines_use_theirs(
    tmp_path: Path,
):
    libraries, built = tmp_path / "lib64", tmp_path / "built"
    for folder in (libraries, built):
        folder.mkdir()
    for name in ("libnccl.so", "libnccl.so.2", "libnccl.so.2.19.4", "libnccl-net.so"):
        (built / name).write_text("")
    program = tmp_path / "program.sh"
    program.write_text("#!/bin/sh\n")
    (installer,) = plugin_installer(interface_network("tcpx"))["initContainers"]
    (text,) = installer["args"]
    here = {
        "/usr/local/nvidia/lib64": libraries,
        "/var/lib/tcpx/lib64": built,
        "/scripts/container_entry.sh": program,
    }
    for path, stand_in in here.items():
        text = text.replace(path, str(stand_in))
    subprocess.run(["sh", "-c", text], check=True, capture_output=True)
    mark = f".tcpx-plugin-{image('tcpx_plugin').tag}"
    assert sorted(each.name for each in libraries.iterdir()) == [mark, "libnccl-net.so"]


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (
            {"network": None},
            "network: must be 'tcpxo' or 'tcp' for 2 hosts of a3-megagpu-8g, which has no RDMA, "
            "got none; nvidia-b200 and nvidia-h200-141gb have it",
        ),
        (
            {"hosts": 1},
            "network: must be unset for one host: NCCL, which TCPXO is for, would send nothing, "
            "got 'tcpxo'",
        ),
        (
            {"accelerator": "nvidia-h100-80gb", "count": 8},
            "network: must be 'tcpx' or 'tcp' or unset for a3-highgpu-8g, which has no TCPXO, "
            "got 'tcpxo'; nvidia-h100-mega-80gb has it",
        ),
        (
            {"accelerator": "nvidia-h200-141gb"},
            "network: must be 'rdma' or 'tcp' or unset for a3-ultragpu-8g, which has no TCPXO, "
            "got 'tcpxo'; nvidia-h100-mega-80gb has it",
        ),
        (
            {"network": "tcpx"},
            "network: must be 'tcpxo' or 'tcp' or unset for a3-megagpu-8g, which has no TCPX, "
            "got 'tcpx'; nvidia-h100-80gb has it",
        ),
        (
            {"accelerator": "nvidia-h100-80gb", "count": 4, "network": "tcpx"},
            "network: must be 'tcp' or unset for a3-highgpu-4g, which has no TCPX, "
            "got 'tcpx'; nvidia-h100-80gb has it",
        ),
    ],
)
def test_a_rung_without_the_interfaces_is_refused(change, refusal):
    rung: Any = {key: value for key, value in {**PAIR, **change}.items() if value is not None}
    with pytest.raises(InputError) as caught:
        check_rung(rung)
    assert str(caught.value) == refusal
