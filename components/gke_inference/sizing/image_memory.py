"""Whether a chip holds a whole copy of a model that draws: every chip draws by itself.

GiB of one chip. The reader of a stack and preflight say what the stack says of the size, the
planner what this project's server loads; the rule is one.
"""

from gke_inference.sizing.architectures import Architecture
from gke_inference.sizing.memory import device_gib, weights_gib

IMAGE_ROOM_GIB = 2.0
"""Beside the weights of an image model, on each chip: what a step needs for four pictures. The TPU
compiler asks for about half a GiB a picture (docs/diffusion.md)."""


def served_gib(model: Architecture) -> float:
    """Returns the weights of an architecture as the server of pictures loads them.

    It keeps the matrices of a narrowed text encoder in eight bits, whatever the checkpoint has
    (`workloads/engine/diffusion.py`, `--text-encoder-bits`).
    """
    narrow = model.narrow_encoder_billion
    wide = weights_gib(model.parameters_billion - narrow, model.bits)
    return wide + (weights_gib(narrow, 8) if narrow else 0.0)


def copy_gib(word: str, weights: float) -> tuple[float, float]:
    """Returns what a whole copy takes of a chip, and what a program may have of the chip, in GiB.

    Args:
        word: Accelerator, in the user's word.
        weights: GiB of weights.
    """
    return weights + IMAGE_ROOM_GIB, device_gib(word)


def check_copies_fit(word: str, weights: float) -> str | None:
    """Returns why a chip does not hold a whole copy of a model, or `None` when it does.

    Args:
        word: Accelerator, in the user's word.
        weights: GiB of weights.
    """
    needed, usable = copy_gib(word, weights)
    if needed <= usable:
        return None
    return (
        f"needs {needed:.1f} GiB on each chip ({weights:.1f} GiB of weights and "
        f"{IMAGE_ROOM_GIB:g} GiB beside them), one of {word} has {usable:.1f} GiB"
    )
