"""Each process of an engine with DeepEP sends through the RDMA interface of its own GPU."""

from pathlib import Path
from typing import Any

import pytest

from workloads.engine import main
from workloads.engine.interfaces import environment
from workloads.engine.spec import Serving

NVIDIA, MELLANOX = "0x10de", "0x15b3"
BY_NUMBER: dict[str, Any] = {"all2all": "deepep_low_latency", "hosts": 2}


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GKE_INFERENCE_ROOT", str(tmp_path))
    return tmp_path


def device(base: Path, address: str, vendor: str, kind: str) -> Path:
    """Add a PCI device below a bridge of its own, as the kernel lists it."""
    at = base / "sys/devices" / f"pci{address[:7]}" / address
    at.mkdir(parents=True)
    (at / "vendor").write_text(f"{vendor}\n")
    (at / "class").write_text(f"{kind}\n")
    listed = base / "sys/bus/pci/devices" / address
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.symlink_to(at)
    return at


def gpu(base: Path, address: str) -> None:
    device(base, address, NVIDIA, "0x030200")


def interface(base: Path, name: str, address: str) -> None:
    folder = base / "sys/class/infiniband" / name
    folder.mkdir(parents=True)
    (folder / "device").symlink_to(device(base, address, MELLANOX, "0x020700"))


def serving(**changes: Any) -> Serving:
    return Serving("gpu", "m", "/mnt/m", tensor_parallel=1, context_tokens=4096, **changes)


def test_a_gpu_and_the_interface_with_its_number_are_a_pair(base: Path) -> None:
    for address in ("0000:8f:00.0", "0000:90:00.0", "0000:0f:00.0"):
        gpu(base, address)
    for name, address in (
        ("mlx5_10", "0000:97:00.0"),
        ("mlx5_2", "0000:17:00.0"),
        ("mlx5_1", "0000:98:00.0"),
    ):
        interface(base, name, address)
    device(base, "0000:05:00.0", NVIDIA, "0x068000")  # an NVSwitch
    device(base, "0000:06:00.0", "0x1ae0", "0x020000")  # Google's own interface
    assert environment(serving(**BY_NUMBER)) == {
        "NVSHMEM_ENABLE_NIC_PE_MAPPING": "1",
        "VLLM_GPU_NIC_PCIE_MAPPING": (
            "0000:0f:00.0=0000:98:00.0,0000:8f:00.0=0000:17:00.0,0000:90:00.0=0000:97:00.0"
        ),
        "VLLM_NIC_SELECTION_VARS": "NVSHMEM_HCA_LIST:1",
    }


@pytest.mark.parametrize(
    "changes",
    [{}, {"hosts": 2}, {"hosts": 2, "all2all": "naive"}, {"all2all": "deepep_low_latency"}],
    ids=str,
)
def test_other_engines_choose_their_interfaces(base: Path, changes: dict[str, Any]) -> None:
    gpu(base, "0000:8f:00.0")
    interface(base, "mlx5_0", "0000:97:00.0")
    assert environment(serving(**changes)) == {}


def test_more_gpus_than_interfaces_are_no_pairs(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu(base, "0000:8f:00.0")
    gpu(base, "0000:90:00.0")
    interface(base, "mlx5_0", "0000:97:00.0")
    assert environment(serving(**BY_NUMBER)) == {}
    assert "2 GPUs and 1 RDMA interfaces: NVSHMEM chooses for each GPU" in capsys.readouterr().out


def test_a_machine_without_both_has_no_pairs(base: Path) -> None:
    assert environment(serving(**BY_NUMBER)) == {}


def test_an_engine_gets_the_pairs_and_a_variable_of_the_stack_takes_precedence(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu(base, "0000:8f:00.0")
    interface(base, "mlx5_0", "0000:97:00.0")
    monkeypatch.setenv("VLLM_NIC_SELECTION_VARS", "NCCL_IB_HCA")
    found = main._environment(serving(**BY_NUMBER))
    assert found["VLLM_GPU_NIC_PCIE_MAPPING"] == "0000:8f:00.0=0000:97:00.0"
    assert found["VLLM_NIC_SELECTION_VARS"] == "NCCL_IB_HCA"
