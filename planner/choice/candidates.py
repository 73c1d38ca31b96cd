"""The hardware that a replica can be: shapes of the catalogue, and how a model is cut over them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from gke_inference.catalogue.accelerators import accelerator as offered
from gke_inference.catalogue.accelerators import accelerator_names
from gke_inference.catalogue.engines import Abilities
from gke_inference.catalogue.engines import engine as engine_facts
from gke_inference.sizing.architectures import Architecture
from gke_inference.sizing.memory import Loaded, Room, room
from gke_inference.sizing.shapes import ModelShape, shape
from planner.fit.chips import Accelerator, accelerator

MOST_CHIPS = 32
"""Larger replicas are nobody's published inference."""
_EIGHT_BITS = {"nvidia-tesla-a100": False, "nvidia-a100-80gb": False}
_FOUR_BITS = ("nvidia-b200", "nvidia-rtx-pro-6000")


@dataclass(frozen=True)
class Form:
    """One replica: chips, and how tensors are split over them."""

    word: str
    """Accelerator in the user's word."""
    machine_type: str
    hosts: int
    count: int
    """Chips of a host."""
    topology: str | None
    tensor: int
    """Chips that one copy of a layer is split over."""
    stages: int
    """Pipeline stages, one a host of GPUs."""
    copies: int
    """Copies of the model in the replica, which share its requests."""
    bits: int
    """Of a weight as served."""

    @property
    def chip(self) -> Accelerator:
        """What the roofline knows of the accelerator."""
        return accelerator(offered(self.word).gke_type)

    @property
    def chips(self) -> int:
        """Of the replica."""
        return self.count * self.hosts

    @property
    def devices(self) -> int:
        """Devices that one copy of a layer is split over, as the engine counts."""
        return self.tensor * self.chip.devices_per_chip

    @property
    def label(self) -> str:
        """Such as `tpu-v6e 2x4` or `nvidia-l4 x4`."""
        if self.topology:
            return f"{self.word} {self.topology}"
        return f"{self.word} x{self.count}" + (f" on {self.hosts} hosts" if self.hosts > 1 else "")

    @property
    def parallelism(self) -> str:
        """Such as `TP8`, `TP8 PP2` or `TP2 DP4`."""
        parts = [f"TP{self.devices}"]
        parts += [f"PP{self.stages}"] if self.stages > 1 else []
        parts += [f"DP{self.copies}"] if self.copies > 1 else []
        return " ".join(parts)


@dataclass(frozen=True)
class Refused:
    """A form that cannot run the model, and why."""

    form: Form
    reason: str


@dataclass(frozen=True)
class Candidate:
    """A form that holds the model."""

    form: Form
    shape: ModelShape
    """At the form's precision."""
    room: Room
    """Of one device."""
    kv_bits: float = 16
    """Of a number in the KV cache."""


def candidates(
    model: Architecture,
    *,
    context: int,
    words: tuple[str, ...] = (),
    bits: tuple[int, ...] = (),
    engine: str = "vllm",
) -> tuple[list[Candidate], list[Refused]]:
    """Return the forms that hold a model, and those that do not with the reason.

    Args:
        model: a model of text.
        context: longest sequence, in tokens.
        words: accelerators to look at; empty: all.
        bits: precisions to look at; empty: the checkpoint's, and 8 where hardware and engine
            compute it.
        engine: in the user's word; several copies in a replica are looked at where it can.
    """
    held: list[Candidate] = []
    refused: list[Refused] = []
    facts = engine_facts(engine)
    for form in _forms(words or accelerator_names()):
        able = facts.abilities(form.chip.kind, form.word)
        if able is None or not _can_split(able, form):
            continue
        for width in bits or _precisions(model, form.chip, able):
            made = replace(form, bits=width)
            served = replace(shape(model), bits=width)
            load = Loaded(served.parameters_billion, width, context, served)
            one = room(load, made.word, tensor=made.devices, stages=made.stages)
            if one.problem is None:
                held.append(Candidate(made, served, one))
            elif made.copies == 1:
                refused.append(Refused(made, one.problem))
    return held, refused


def _can_split(able: Abilities, form: Form) -> bool:
    """Return whether an engine can be split so on the form's hardware."""
    return (form.hosts == 1 or able.multi_host) and (form.copies == 1 or able.data_parallel)


def _precisions(model: Architecture, chip: Accelerator, able: Abilities) -> tuple[int, ...]:
    found = [model.bits]
    if model.bits > 8 and _EIGHT_BITS.get(chip.name, True) and "fp8" in able.quantization:
        found.append(8)
    if model.bits > 4 and chip.name in _FOUR_BITS:
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
            yield Form(word, entry.name, 2, 8, None, 8, 2, 1, 16)


def _split(
    word: str, machine_type: str, hosts: int, count: int, topology: str | None
) -> Iterator[Form]:
    """Yield the ways to cut a model over one replica: one copy, or several on one host."""
    chips = count * hosts
    tensor = chips
    while tensor >= 1:
        yield Form(word, machine_type, hosts, count, topology, tensor, 1, chips // tensor, 16)
        if hosts > 1 or tensor % 2:
            return
        tensor //= 2
