"""Peak performance of accelerators for the roofline of the cost model.

Peaks are the vendors' figures without sparsity, from the catalogue of the components. The
efficiencies are those of the simulated engine: docs/engine-model.md. The planner's own are in
`estimate`.
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
    """Usable memory, in 10^9 bytes: the catalogue's nominal number. That number in GiB is 7 % more,
    which driver and firmware occupy."""
    bandwidth_gbps: float
    """Memory bandwidth, in 10^9 bytes per second."""
    bf16_tflops: float
    fp8_tflops: float
    """Peak at 8 bits; equal to bf16 if the hardware is no faster at 8 bits."""
    link_gbps: float
    """Bandwidth between chips of one node, one way, in 10^9 bytes per second."""
    devices_per_chip: int = 1
    """Devices per chip that the engine sees: 2 on TPU7x."""
    fp4_tflops: float | None = None
    """Peak at 4 bits; None if 4-bit weights are computed at 16 bits."""
    compute_capability: str | None = None
    """CUDA's, of a GPU."""


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
        chip.cuda.compute_capability if chip.cuda else None,
    )


# Published points exist for the first. A twin without accelerators runs on the second.
_NOT_OFFERED = (
    Accelerator(
        "nvidia-gb200", "gpu", 186, 8000, 2500, 5000, 900,
        fp4_tflops=10_000, compute_capability="10.0",
    ),
    Accelerator("cpu", "cpu", 64, 100, 3, 3, 10),
)  # fmt: skip
WORDS = catalogue.names_by_gke_type()
"""The user's name for an accelerator, by GKE's label value."""
ACCELERATORS = {
    chip.name: chip for chip in (*(_of_catalogue(name) for name in WORDS.values()), *_NOT_OFFERED)
}
"""Accelerators by GKE's label value."""


@dataclass(frozen=True)
class Efficiency:
    """Efficiency of an engine on an accelerator."""

    prefill: float
    """Fraction of peak compute."""
    decode: float
    """Fraction of peak memory bandwidth."""
    overhead_seconds: float
    """Time for scheduling, launch and sampling per step, in seconds."""
    mixture: float = 1.0
    """Factor by which a mixture of experts computes slower than a dense model of its active size,
    due to many small matrix products and unevenly distributed tokens."""
    attention: float | None = None
    """Fraction of the peak at 16 bits that the attention of prompts reaches; None: attention
    computes and reads while the matrix products do."""
    kv: float | None = None
    """Fraction of peak bandwidth at which attention reads the KV cache, if it takes its own
    time; None: `decode`."""
    layer_seconds: float = 0.0
    """Additional time of a step for each layer, for the kernels that do little work."""
    narrow: float = 1.0
    """Share of `prefill` that matrix products reach of a peak above that of 16 bits: activations
    must be quantized first."""


EFFICIENCY = {
    "gpu": Efficiency(
        0.635, 0.93, 0.0, mixture=1.27, attention=0.5, kv=0.76, layer_seconds=5.2e-5, narrow=0.72
    ),
    "nvidia-l4": Efficiency(0.55, 0.75, 0.0012, mixture=1.27),
    "tpu": Efficiency(0.50, 0.65, 0.0018, mixture=3.0),
    "tpu7x": Efficiency(0.80, 0.50, 0.0040, mixture=6.0),
    "cpu": Efficiency(0.30, 0.50, 0.004),
}
"""Efficiency by accelerator, or otherwise by kind. GPU: fitted to the first half of a run of Llama
3.1 8B on one RTX PRO 6000 and to the rows of that model on one H100 (simulator/engine/accuracy.py),
and for mixtures to the prompts of gpt-oss-120b on H200 that llm-d measured to calibrate its router:
8,192 tokens in 242 ms (guides/pd-disaggregation, peakPrefillThroughput 33821). L4: its published
points reach less of the bandwidth. TPU7x: fitted to all its points. Other TPUs: Llama 3.3 70B on
v6e; the mixture as on TPU7x. CPU: assumed. docs/engine-model.md reports the errors."""


def efficiency_of(chip: Accelerator) -> Efficiency:
    """Return the efficiency of vLLM on an accelerator."""
    return EFFICIENCY.get(chip.name) or EFFICIENCY[chip.kind]


SHARED_READ_COST = 0.3
"""Cost of reading a KV block again in one step, relative to the first read. Attention over blocks
that several sequences share finds part of them in the chip's cache."""
COLLECTIVE_LATENCY_SECONDS = 12e-6
"""Latency of an all-reduce of a small tensor among the chips of a node."""


@dataclass(frozen=True)
class Link:
    """What connects the chips of one host."""

    gbps: float
    """What a collective sends, one way, in 10^9 bytes per second."""
    latency_seconds: float = COLLECTIVE_LATENCY_SECONDS
    """Latency of an all-reduce of a small tensor."""


@dataclass(frozen=True)
class HostNetwork:
    """Network between two GPU hosts of a zone."""

    gbps: float
    """Bandwidth of all interfaces of a host, in 10^9 bytes per second."""
    latency_seconds: float
    """Latency of one message."""


NETWORK_REACHED = 0.8
"""Share of a network's rate that messages reach: assumed; DeepEP's kernels reach it over RDMA
(data/all_to_all.yaml)."""
_TCP_GBIT_PER_S = 200


def _gbit_per_s(technology: str) -> int:
    """Return the rate of all interfaces of a machine: with RDMA, the same on A3 Ultra and A4."""
    chips = map(catalogue.accelerator, catalogue.accelerators_on(technology))
    found = [machine.network for chip in chips for machine in chip.machines]
    own = [each for each in found if each is not None and each.technology == technology]
    return min(each.nics * each.gbit_per_s for each in own)


HOST_NETWORKS = {
    "rdma": HostNetwork(_gbit_per_s("rdma") / 8 * NETWORK_REACHED, 15e-6),
    "tcpx": HostNetwork(_gbit_per_s("tcpx") / 8 * NETWORK_REACHED, 60e-6),
    "tcpxo": HostNetwork(_gbit_per_s("tcpxo") / 8 * NETWORK_REACHED, 30e-6),
    "tcp": HostNetwork(_TCP_GBIT_PER_S / 8 * NETWORK_REACHED, 60e-6),
}
"""Networks between hosts, by the `network` of a rung. With RDMA and TCPXO, each GPU sends over its
own interface; with TCPX, two share one. TCP is one interface of 200 Gbit/s, whatever the machine:
assumed, as are the latencies. TCPX has that of TCP: an all-gather of 1 MB takes 1 ms on two nodes
(cluster-toolkit @1047080 examples/gke-a3-highgpu/multi-node-test-plan.md)."""

CHIPS_OF_A_HOST = 8
"""Accelerators that share a host's network, on machines with GPUs or TPUs in groups of eight."""


def network_of_host(chip: Accelerator) -> HostNetwork:
    """Return what connects pipeline stages on one host: the links between its chips."""
    return HostNetwork(chip.link_gbps, COLLECTIVE_LATENCY_SECONDS)


def accelerator(name: str) -> Accelerator:
    """Return an accelerator by GKE's label value.

    Raises:
        ValueError: The accelerator is unknown.
    """
    if name not in ACCELERATORS:
        raise ValueError(
            f"accelerator must be one of {', '.join(sorted(ACCELERATORS))}, got {name!r}"
        )
    return ACCELERATORS[name]
