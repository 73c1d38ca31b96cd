"""What an accelerator can do, as the roofline of the cost model needs it.

Peaks are the vendors' dense figures. The efficiencies are fitted to published points of real
servers, which they reproduce within a fifth (tests/unit/engines/test_cost.py): Llama 3.1 8B in fp8
on an H100 (MLPerf Inference v5.1, 5.1-0083), Llama 3.3 70B on eight TPU v6e chips
(AI-Hypercomputer/tpu-recipes @c8cfe2f) and a 12B model on one (a public report, July 2026).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Accelerator:
    """One chip or card."""

    name: str
    """GKE's label value, such as `tpu-v6e-slice` or `nvidia-l4`."""
    kind: str
    """`tpu`, `gpu` or `cpu`."""
    memory_gb: float
    """Memory, in 10^9 bytes."""
    bandwidth_gbps: float
    """Memory bandwidth, in 10^9 bytes a second."""
    bf16_tflops: float
    fp8_tflops: float
    """Peak at 8 bits; equal to bf16 where the hardware computes no faster."""
    link_gbps: float
    """Bandwidth between chips of one node, one way, in 10^9 bytes a second."""
    devices_per_chip: int = 1
    """Devices the engine sees for each chip: 2 on TPU7x."""


_ALL = (
    Accelerator("tpu-v5-lite-podslice", "tpu", 16, 819, 197, 197, 50),
    Accelerator("tpu-v6e-slice", "tpu", 32, 1638, 918, 918, 100),
    Accelerator("tpu7x", "tpu", 192, 7380, 2307, 4614, 150, devices_per_chip=2),
    Accelerator("nvidia-l4", "gpu", 24, 300, 121, 242, 32),
    Accelerator("nvidia-tesla-a100", "gpu", 40, 1555, 312, 312, 300),
    Accelerator("nvidia-a100-80gb", "gpu", 80, 2039, 312, 312, 300),
    Accelerator("nvidia-h100-80gb", "gpu", 80, 3350, 989, 1979, 450),
    Accelerator("nvidia-h100-mega-80gb", "gpu", 80, 3350, 989, 1979, 450),
    Accelerator("nvidia-h200-141gb", "gpu", 141, 4800, 989, 1979, 450),
    Accelerator("nvidia-b200", "gpu", 180, 8000, 2250, 4500, 900),
    Accelerator("nvidia-gb200", "gpu", 186, 8000, 2500, 5000, 900),
    Accelerator("nvidia-rtx-pro-6000", "gpu", 96, 1597, 503, 1007, 64),
    Accelerator("cpu", "cpu", 64, 100, 3, 3, 10),
)
ACCELERATORS = {accelerator.name: accelerator for accelerator in _ALL}

PREFILL_EFFICIENCY = {"gpu": 0.55, "tpu": 0.50, "cpu": 0.30}
"""Part of peak compute that a full prefill batch reaches."""
DECODE_EFFICIENCY = {"gpu": 0.75, "tpu": 0.65, "cpu": 0.50}
"""Part of peak memory bandwidth that a decode step reaches."""
STEP_OVERHEAD_SECONDS = {"gpu": 0.0012, "tpu": 0.0018, "cpu": 0.004}
"""Scheduling, launch and sampling, for each step."""
COLLECTIVE_LATENCY_SECONDS = 12e-6
"""One all-reduce of a small tensor among the chips of a node."""
RUNTIME_MEMORY_GB = {"gpu": 1.5, "tpu": 1.0, "cpu": 0.5}
"""Activations, graphs and runtime, for each chip, inside the memory that the engine may use."""


def accelerator(name: str) -> Accelerator:
    """Return an accelerator by GKE's label value.

    Raises:
        ValueError: nothing is known of it.
    """
    if name not in ACCELERATORS:
        raise ValueError(
            f"accelerator must be one of {', '.join(sorted(ACCELERATORS))}, got {name!r}"
        )
    return ACCELERATORS[name]
