"""What an accelerator can do, as the roofline of the cost model needs it.

Peaks are the vendors' dense figures, from the catalogue of the components. The efficiencies are
those of the simulated engine: docs/engine-model.md. The planner's own are in `estimate`.
"""

from dataclasses import dataclass

from gke_inference.catalogue import accelerators as catalogue


@dataclass(frozen=True)
class Accelerator:
    """One chip or card."""

    name: str
    """GKE's label value, such as `tpu-v6e-slice` or `nvidia-l4`."""
    kind: str
    """`tpu`, `gpu` or `cpu`."""
    memory_gb: float
    """Memory that counts, in 10^9 bytes: the nominal number of the catalogue, whose GiB are 7 %
    more; that much is held by driver and firmware."""
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


def _of_catalogue(name: str) -> Accelerator:
    chip = catalogue.accelerator(name)
    bf16 = float(chip.tflops["bf16"] or 0)
    return Accelerator(
        chip.gke_type,
        chip.kind,
        chip.memory_gib,
        chip.bandwidth_gb_per_s,
        bf16,
        float(chip.tflops.get("fp8") or bf16),
        chip.link_gb_per_s,
        chip.devices_per_chip,
        chip.tflops.get("fp4"),
    )


# Published points exist for the first; the second is what a twin without accelerators runs on.
_NOT_OFFERED = (
    Accelerator("nvidia-gb200", "gpu", 186, 8000, 2500, 5000, 900, fp4_tflops=10_000),
    Accelerator("cpu", "cpu", 64, 100, 3, 3, 10),
)
WORDS = {catalogue.accelerator(name).gke_type: name for name in catalogue.accelerator_names()}
"""The user's word for an accelerator by GKE's label value."""
ACCELERATORS = {
    chip.name: chip for chip in (*(_of_catalogue(name) for name in WORDS.values()), *_NOT_OFFERED)
}
"""By GKE's label value."""


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
