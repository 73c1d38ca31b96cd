"""Candidate hardware for a replica: shapes of the catalog, and the partitioning of a model."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from gke_inference.catalogue.accelerators import accelerator as offered
from gke_inference.catalogue.accelerators import accelerator_names, machine
from gke_inference.catalogue.engines import DEFAULT_ENGINE, Abilities
from gke_inference.catalogue.engines import engine as engine_facts
from gke_inference.catalogue.node_networks import INTERFACE_NETWORKS
from gke_inference.intent.expert_settings import ALL2ALL
from gke_inference.intent.host_memory import mounts_weights, need, room_gib, weights_cache_gib
from gke_inference.sizing.architectures import Architecture
from gke_inference.sizing.memory import Loaded, Room, expert_part, room, weights_gib
from gke_inference.sizing.shapes import ModelShape, shape
from planner.fit.chips import Accelerator, accelerator

MOST_CHIPS = 32
"""Largest replica in the search: no inference on larger ones has been published."""


@dataclass(frozen=True)
class Form:
    """Replica: its chips, and how tensors are split over them."""

    word: str
    """Accelerator, in the user's word."""
    machine_type: str
    hosts: int
    count: int
    """Chips per host."""
    topology: str | None
    tensor: int
    """Chips that one copy of a layer is split over."""
    stages: int
    """Pipeline stages, one per GPU host."""
    copies: int
    """Copies of the model in the replica, which share its requests."""
    bits: int
    """Bits of a weight as served."""
    network: str | None = None
    """Network between the hosts of a GPU replica: `rdma` or `tcp`; None for one host. Not `tcpx`
    or `tcpxo`, which need node pools and a range that a plan does not write (`faster_network`)."""
    experts: bool = False
    """Whether the experts of a mixture are spread over all chips, each of which has a copy of the
    other layers and processes different requests."""

    @property
    def chip(self) -> Accelerator:
        """Accelerator as the roofline models it."""
        return accelerator(offered(self.word).gke_type)

    @property
    def chips(self) -> int:
        """Number of chips in the replica."""
        return self.count * self.hosts

    @property
    def devices(self) -> int:
        """Devices that one copy of a layer is split over, as the engine counts."""
        return self.tensor * self.chip.devices_per_chip

    @property
    def faster_network(self) -> str | None:
        """`tcpx` or `tcpxo` if its machines have it and it uses `tcp`, or None."""
        own = machine(self.word, self.machine_type).technology
        return own if self.network == "tcp" and own in INTERFACE_NETWORKS else None

    @property
    def split(self) -> int:
        """Devices that one copy of a layer without experts is split over."""
        return 1 if self.experts else self.devices

    @property
    def split_kind(self) -> str:
        """How the model is split, in the words of `correction.traits`."""
        return "experts" if self.experts else "stages" if self.stages > 1 else ""

    @property
    def label(self) -> str:
        """Display name, such as `tpu-v6e 2x4` or `nvidia-l4 x4`."""
        if self.topology:
            return f"{self.word} {self.topology}"
        if self.hosts == 1:
            return f"{self.word} x{self.count}"
        return f"{self.word} x{self.count} on {self.hosts} hosts by {self.network}"

    @property
    def parallelism(self) -> str:
        """Partitioning, such as `TP8`, `TP8 PP2` or `TP2 DP4`."""
        if self.experts:
            return f"EP{self.devices}"
        parts = [f"TP{self.devices}"]
        parts += [f"PP{self.stages}"] if self.stages > 1 else []
        parts += [f"DP{self.copies}"] if self.copies > 1 else []
        return " ".join(parts)


@dataclass(frozen=True)
class Refused:
    """Form that cannot run the model, with the reason."""

    form: Form
    reason: str


@dataclass(frozen=True)
class Candidate:
    """Form that fits the model."""

    form: Form
    shape: ModelShape
    """Shape of the model at the form's precision."""
    room: Room
    """Memory of one device."""
    kv_bits: float = 16
    """Bits of a number in the KV cache."""
    backend: str = ALL2ALL[None].value
    """All-to-all backend of expert parallelism."""


def candidates(
    model: Architecture,
    *,
    context: int,
    words: tuple[str, ...] = (),
    bits: tuple[int, ...] = (),
    engine: str = DEFAULT_ENGINE,
    kv_bits: int = 16,
    adapters: int = 0,
    speculative: str = "",
) -> tuple[list[Candidate], list[Refused]]:
    """Return the forms that fit a model, and those that do not with the reason.

    Args:
        model: Text model.
        context: Longest sequence, in tokens.
        words: Accelerators to consider; empty for all.
        bits: Precisions to consider; empty for the checkpoint's, and 8 if hardware and engine
            support it.
        engine: Engine, in the user's word; several copies per replica only if it supports them.
        kv_bits: Bits of a number in the KV cache; 8 only where the engine supports it.
        adapters: LoRA adapters; any only where the engine supports them.
        speculative: Method of speculative decoding; empty for none. Only where the engine supports
            it, and not with pipeline stages.
    """
    held: list[Candidate] = []
    refused: list[Refused] = []
    facts = engine_facts(engine)
    for form in _forms(words or accelerator_names()):
        able = facts.abilities(form.chip.kind, form.word)
        if able is None or not _can_split(able, form) or not _can_serve(able, kv_bits, adapters):
            continue
        if speculative and (speculative not in able.speculative or form.stages > 1):
            continue
        if form.experts and (not able.experts or adapters or not _can_spread(model, form)):
            continue
        for width in bits or _precisions(model, form.chip, able):
            made = replace(form, bits=width)
            served = replace(shape(model), bits=width)
            load = Loaded(served.parameters_billion, width, context, served, kv_bits)
            if made.experts:
                load = expert_part(load, made.devices, 1, 0)
            one = room(load, made.word, tensor=made.split, stages=made.stages)
            problem = one.problem or _memory_problem(made, served, engine)
            if problem is None:
                held.append(Candidate(made, served, one, kv_bits))
            elif made.copies == 1 and not made.experts:
                refused.append(Refused(made, problem))
    return held, refused


def _memory_problem(form: Form, served: ModelShape, engine: str) -> str | None:
    """Return why the node's memory does not hold a server's pod; None if it does.

    A stack with the form is refused by the same rule (`intent.host_memory`).
    """
    ram_gib = machine(form.word, form.machine_type).ram_gib
    if ram_gib is None:
        return None
    is_mounted = mounts_weights(engine, form.chip.kind)
    size = weights_gib(served.parameters_billion, served.bits)
    needed = need(form.count, weights_cache_gib(size) if is_mounted else 0)
    usable = room_gib(ram_gib)
    if needed.gib <= usable:
        return None
    return f"the pod needs {needed.gib} GiB of memory ({needed.parts}), the node has {usable}"


def _can_split(able: Abilities, form: Form) -> bool:
    """Return whether an engine supports the split on the form's hardware."""
    return (form.hosts == 1 or able.multi_host) and (form.copies == 1 or able.data_parallel)


def _can_spread(model: Architecture, form: Form) -> bool:
    """Return whether the experts of a model can be spread evenly over the chips of a form."""
    return shape(model).expert_billion > 0 and model.experts % form.devices == 0


def _can_serve(able: Abilities, kv_bits: int, adapters: int) -> bool:
    """Return whether an engine supports a quantized KV cache and adapters, if asked for."""
    return (kv_bits == 16 or "fp8" in able.kv_cache_dtype) and (not adapters or able.adapters)


def _precisions(model: Architecture, chip: Accelerator, able: Abilities) -> tuple[int, ...]:
    found = [model.bits]
    has_fp8 = chip.kind != "gpu" or chip.fp8_tflops > chip.bf16_tflops
    if model.bits > 8 and has_fp8 and "fp8" in able.quantization:
        found.append(8)
    if model.bits > 4 and chip.fp4_tflops is not None:
        found.append(4)
    return tuple(found)


@cache
def _forms(words: tuple[str, ...]) -> tuple[Form, ...]:
    return tuple(form for word in words for form in _of(word))


def _of(word: str) -> Iterator[Form]:
    chip = offered(word)
    if chip.kind == "tpu":
        seen: set[str] = set()
        for entry in chip.slices:
            if entry.topology not in seen and entry.chips <= MOST_CHIPS:
                seen.add(entry.topology)
                yield from _split(
                    word, entry.machine_type, entry.hosts, entry.chips_per_host, entry.topology
                )
        return
    counts: set[int] = set()
    for entry in chip.machines:
        if entry.chips in counts:
            continue
        counts.add(entry.chips)
        yield from _split(word, entry.name, 1, entry.chips, None)
        if entry.chips == 8:
            yield Form(word, entry.name, 1, 8, None, 8, 1, 1, 16, experts=True)
            if entry.has_rdma:
                yield Form(word, entry.name, 2, 8, None, 16, 1, 1, 16, "rdma", experts=True)
            network = "rdma" if entry.has_rdma else "tcp"
            yield Form(word, entry.name, 2, 8, None, 8, 2, 1, 16, network)


def _split(
    word: str, machine_type: str, hosts: int, count: int, topology: str | None
) -> Iterator[Form]:
    """Yield the partitionings of a model over a replica: one copy, or several on one host."""
    chips = count * hosts
    tensor = chips
    while tensor >= 1:
        yield Form(word, machine_type, hosts, count, topology, tensor, 1, chips // tensor, 16)
        if hosts > 1 or tensor % 2:
            return
        tensor //= 2
