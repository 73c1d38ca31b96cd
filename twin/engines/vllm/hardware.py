"""What an accelerator can do, as the roofline of the cost model needs it.

Peaks are the vendors' dense figures. The efficiencies are fitted to published points of real
servers: see `calibration` and docs/engine-model.md.
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
    fp4_tflops: float | None = None
    """Peak at 4 bits; None where weights of 4 bits are computed with at 16."""


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
    Accelerator("nvidia-b200", "gpu", 180, 8000, 2250, 4500, 900, fp4_tflops=9000),
    Accelerator("nvidia-gb200", "gpu", 186, 8000, 2500, 5000, 900, fp4_tflops=10_000),
    Accelerator("nvidia-rtx-pro-6000", "gpu", 96, 1597, 503, 1007, 64, fp4_tflops=2000),
    Accelerator("cpu", "cpu", 64, 100, 3, 3, 10),
)
ACCELERATORS = {accelerator.name: accelerator for accelerator in _ALL}


@dataclass(frozen=True)
class Efficiency:
    """What an engine gets out of an accelerator."""

    prefill: float
    """Part of peak compute."""
    decode: float
    """Part of peak memory bandwidth."""
    overhead_seconds: float
    """Scheduling, launch and sampling, for each step."""
    mixture: float = 1.0
    """By how much a mixture of experts computes slower than a dense model of its active size:
    products of many small matrices, and tokens that are not spread evenly."""


EFFICIENCY = {
    "gpu": Efficiency(0.55, 0.75, 0.0012, mixture=2.0),
    "tpu": Efficiency(0.50, 0.65, 0.0018, mixture=3.0),
    "tpu7x": Efficiency(0.75, 0.65, 0.0040, mixture=6.0),
    "cpu": Efficiency(0.30, 0.50, 0.004),
}
"""By accelerator, or else by its kind. GPU: llm-d's ladder of rates, MLPerf's vLLM point, and for
mixtures GIQ's gpt-oss-20b. TPU7x: fitted to all its points. Other TPUs: Llama 3.3 70B on v6e; the
mixture as on TPU7x. CPU: assumed. docs/engine-model.md says how well each holds."""


def efficiency_of(chip: Accelerator) -> Efficiency:
    """Return what vLLM gets out of an accelerator."""
    return EFFICIENCY.get(chip.name) or EFFICIENCY[chip.kind]


SHARED_READ_COST = 0.3
"""What reading a KV block again in one step costs, against the first time: attention over blocks
that several sequences share finds part of them in the chip's cache."""
COLLECTIVE_LATENCY_SECONDS = 12e-6
"""One all-reduce of a small tensor among the chips of a node."""
NETWORK_GBPS = 25.0
"""Between two GPU hosts, in 10^9 bytes a second: one 200 Gbit/s interface, no RDMA. Assumed."""
NETWORK_LATENCY_SECONDS = 60e-6
"""One message between two GPU hosts of a zone. Assumed."""
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
