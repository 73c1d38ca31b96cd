"""Checks of a model on a rung before deployment: memory, kernel and block table."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.fitting import loaded_model, whole_copies
from gke_inference.intent.host_memory import host_memory
from gke_inference.intent.intent import ServingIntent
from gke_inference.sizing.architectures import Architecture, find_model, is_sdxl
from gke_inference.sizing.image_memory import ImageCopy, check_copies_fit, copy_gib
from gke_inference.sizing.memory import Room, expert_part, room, split
from infra.plan import Plan
from infra.plan.engine import stack_intent
from infra.stack import Model, Task
from workloads.kernels.shapes import GENERATIONS, AttentionShape
from workloads.kernels.tables import choose

_FLUX = AttentionShape(24, 24, 4608, 4608, 128, causal=False)
"""For an image of 1024 by 1024 pixels with 512 tokens of text, the largest that FLUX.1 makes."""
_SDXL = AttentionShape(10, 10, 4096, 4096, 64, causal=False)
"""For an image of 1024 by 1024 pixels, the longer of the two that Stable Diffusion XL has."""
_WAN = AttentionShape(12, 12, 32_760, 32_760, 128, causal=False)
"""For a video of 81 frames of 832 by 480 pixels with Wan 2.1 of 1.3 billion parameters."""

_NO_COMPILER = "no compiler for GPUs here"


@dataclass(frozen=True)
class Check:
    """Result of one check."""

    ok: bool | None
    """None: not checked."""
    says: str
    brief: str = ""
    """Text in a table if the check passed."""


@dataclass(frozen=True)
class Line:
    """A model on a rung."""

    model: str
    rung: str
    memory: Check
    kernel: Check
    table: Check
    call: dict[str, Any] | None
    """Program to compile for `kernel`; None for none."""


def lines(plan: Plan) -> Iterator[Line]:
    """Yield each model on each rung of its capacity, once, in the stack's order."""
    for name, every in plan.models.items():
        seen: set[int] = set()
        for served in every:
            for at, rung in served.rungs.items():
                if at not in seen and served.version is None:
                    seen.add(at)
                    yield line(name, served.settings, rung)


def line(name: str, model: Model, rung: Rung) -> Line:
    """Return the checks of a model on a rung; the kernel's check has the program to compile."""
    architecture = find_model(model.weights, name)
    tensor, _ = split(rung, model.settings.tensor_parallel or (1 if model.experts else None))
    call = _call(name, model, rung, architecture, tensor)
    return Line(
        model=name,
        rung=rung.label,
        memory=memory(stack_intent(name, model, {"": rung}), rung),
        kernel=Check(None, "not asked") if call else Check(None, _why_not(rung, architecture)),
        table=table(name, model, rung),
        call=call,
    )


def memory(intent: ServingIntent, rung: Rung) -> Check:
    """Return whether weights and the KV cache of one longest request fit, with the numbers."""
    if not rung.chips and (host := host_memory(intent, rung)) is not None:
        found, usable = host
        says = f"{found.gib} GiB of main memory ({found.parts}) of {usable} for the pod"
        return Check(found.gib <= usable, says, f"{found.gib} of {usable} GiB")
    if copies := whole_copies(intent):
        return _copy(rung, max(copies, key=lambda each: each.weights + each.adapters + each.room))
    load, asked = loaded_model(intent), intent.settings.tensor_parallel
    tensor, stages = split(rung, asked)
    if intent.experts is not None:
        tensor, stages = asked or 1, 1
        load = expert_part(load, rung.devices, tensor, intent.experts.redundant)
    found = room(load, rung.accelerator, tensor=tensor, stages=stages)
    brief = f"{found.needed:.1f} of {found.usable:.1f} GiB"
    if found.tokens:
        brief += f", {found.tokens / intent.context:.1f} requests"
    return Check(found.problem is None, _room_says(found, intent, load.shape is not None), brief)


def _copy(rung: Rung, one: ImageCopy) -> Check:
    """Return whether each chip holds a whole copy: its weights, adapters and room."""
    needed, usable = copy_gib(rung.accelerator, one.weights, one.adapters, one.room)
    reason = check_copies_fit(rung.accelerator, one.weights, one.adapters, one.room, one.of)
    chip = f"a chip of {one.of}, the largest" if one.of else "a chip"
    says = reason or f"{one.weights:.1f} weights, {needed:.1f} in all <= {usable:.1f} GiB {chip}"
    return Check(reason is None, says, f"{needed:.1f} of {usable:.1f} GiB")


def _room_says(found: Room, intent: ServingIntent, is_known: bool) -> str:
    if found.indivisible is not None:
        return found.indivisible
    if not is_known:
        return f"{found}; KV cache not checked: the layers of {intent.weights} are not known"
    requests = found.tokens / intent.context
    return f"{found}; {found.tokens:,} tokens of KV cache, {requests:.1f} requests"


def _shape(name: str, model: Model) -> AttentionShape:
    if model.task is Task.VIDEO:
        return _WAN
    return _SDXL if is_sdxl(model.weights, name) else _FLUX


def table(name: str, model: Model, rung: Rung) -> Check:
    """Return whether the kernel's block sizes are known for the chip."""
    if rung.kind != "tpu":
        return Check(None, "the engine's own")
    if not model.task.is_diffusion:
        return Check(None, "tpu-inference's own table")
    generation = _generation(rung)
    if generation not in GENERATIONS:
        return Check(False, f"no table for {rung.accelerator}, only for {', '.join(GENERATIONS)}")
    shape = _shape(name, model)
    choice = choose(shape, generation)
    if choice.entry is None or choice.source != "table":
        return Check(False, f"no entry for {shape} on {generation}")
    chip = "not measured" if choice.entry.measured is None else f"{choice.entry.measured.ms} ms"
    return Check(True, f"{choice.blocks}, {chip}")


def _call(
    name: str, model: Model, rung: Rung, architecture: Architecture | None, tensor: int
) -> dict[str, Any] | None:
    generation = _generation(rung)
    if rung.kind != "tpu" or generation not in GENERATIONS:
        return None
    if model.task.is_diffusion:
        shape = _shape(name, model)
        blocks = choose(shape, generation).blocks
        return {
            "kernel": "splash",
            "generation": generation,
            "shape": vars(shape),
            "blocks": vars(blocks),
        }
    if architecture is None or architecture.mla or not architecture.heads:
        return None
    return {
        "kernel": "paged",
        "generation": generation,
        "heads": -(-architecture.heads // tensor),
        "kv_heads": -(-architecture.kv_heads // tensor),
        "head_size": architecture.head_dim,
        "context": model.context,
    }


def _why_not(rung: Rung, architecture: Architecture | None) -> str:
    if not rung.chips:
        return "none on processors"
    if rung.kind != "tpu":
        return f"not checked: {_NO_COMPILER}"
    if _generation(rung) not in GENERATIONS:
        return f"not checked: only {', '.join(GENERATIONS)} are compiled for"
    if architecture is None:
        return "not checked: its heads are not known"
    return "not checked: latent attention has a kernel of its own"


def _generation(rung: Rung) -> str:
    return rung.accelerator.removeprefix("tpu-")
