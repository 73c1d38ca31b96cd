"""Whether a model fits on a rung: weights and room for the KV cache against chip memory."""

from typing import Protocol

from gke_inference.accelerators import accelerator

GIB = 2**30

KV_SHARE = 0.15
"""Room for KV cache, activations and adapters as a share of the weights, at the very least."""

UTILISATION = 0.9
"""Share of accelerator memory the engine may take, vLLM's own default."""


class Memory(Protocol):
    """What `check_fit` asks of a rung; `gke_inference.rungs.Rung` has it."""

    @property
    def accelerator(self) -> str:
        """In the user's word."""
        ...

    @property
    def memory_gib(self) -> int:
        """Of all chips together."""
        ...

    @property
    def chips(self) -> int:
        """Chips of all hosts together."""
        ...

    @property
    def topology(self) -> str | None:
        """Of a TPU slice."""
        ...


def weights_gib(parameters_billion: float, bits: float) -> float:
    """Returns the size of a model's weights.

    Args:
        parameters_billion: All parameters, of a mixture of experts too.
        bits: Per parameter: 16 for bf16, 8 for fp8 or int8, 4.25 for mxfp4.

    Raises:
        ValueError: One of them is not positive.
    """
    if parameters_billion <= 0 or bits <= 0:
        raise ValueError(
            f"parameters and bits must be positive, got {parameters_billion} billion and {bits}"
        )
    return parameters_billion * 1e9 * bits / 8 / GIB


def kv_cache_gib(
    tokens: int, *, layers: int, kv_heads: int, head_size: int, bits: float = 16
) -> float:
    """Returns the KV cache of so many tokens: a key and a value per layer and head."""
    return 2 * tokens * layers * kv_heads * head_size * bits / 8 / GIB


def usable_gib(rung: Memory, utilisation: float = UTILISATION) -> float:
    """Returns the accelerator memory of a rung that an engine may take."""
    return rung.memory_gib * utilisation


def check_fit(
    rung: Memory,
    weights: float,
    overhead: float = KV_SHARE,
    *,
    utilisation: float = UTILISATION,
) -> str | None:
    """Returns why a model does not fit on a rung, or `None` when it does.

    Args:
        rung: The rung.
        weights: GiB of weights.
        overhead: Room beside the weights, as a share of them.
        utilisation: Share of memory the engine may take.
    """
    needed = weights * (1 + overhead)
    usable = usable_gib(rung, utilisation)
    if needed <= usable:
        return None
    per_chip = rung.memory_gib // rung.chips
    reason = (
        f"needs {needed:.1f} GiB ({weights:.1f} GiB of weights and {overhead:.0%} beside them), "
        f"{rung.accelerator} {rung.topology or f'x{rung.chips}'} has {usable:.1f} GiB "
        f"({utilisation:.0%} of {rung.chips} x {per_chip} GiB)"
    )
    larger = _smallest_shape(rung, needed / utilisation)
    return f"{reason}; {larger} would hold it" if larger else reason


IMAGE_ROOM_GIB = 2.0
"""Beside the weights of an image model, on each chip: what a step needs for four pictures. The TPU
compiler asks for about half a GiB a picture (docs/diffusion.md)."""

IMAGE_UTILISATION = 31.25 / 32
"""Share of a TPU's memory that a program may take: libtpu says 31.25 GiB of a v6e's 32."""


def copy_gib(rung: Memory, weights: float) -> tuple[float, float]:
    """Returns what a whole copy of an image model takes of a chip, and what the chip has, in GiB.

    Args:
        rung: The rung.
        weights: GiB of weights.
    """
    return weights + IMAGE_ROOM_GIB, rung.memory_gib / rung.chips * IMAGE_UTILISATION


def check_copies_fit(rung: Memory, weights: float) -> str | None:
    """Returns why a chip does not hold a whole copy of a model, or `None` when each one does.

    Args:
        rung: The rung.
        weights: GiB of weights.
    """
    needed, usable = copy_gib(rung, weights)
    if needed <= usable:
        return None
    return (
        f"needs {needed:.1f} GiB on each chip ({weights:.1f} GiB of weights and "
        f"{IMAGE_ROOM_GIB:g} GiB beside them), one of {rung.accelerator} has {usable:.1f} GiB"
    )


def _smallest_shape(rung: Memory, memory_gib: float) -> str | None:
    """Returns the smallest shape of the same chip with that much memory."""
    chip = accelerator(rung.accelerator)
    if chip.kind == "tpu":
        shapes = {entry.topology: entry.chips for entry in chip.slices}
    else:
        shapes = {f"count {entry.chips}": entry.chips for entry in chip.machines}
    enough = [
        (chips, shape) for shape, chips in shapes.items() if chips * chip.memory_gib >= memory_gib
    ]
    return min(enough)[1] if enough else None
