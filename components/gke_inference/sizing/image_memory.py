"""Fit of models of images and videos: each chip holds a whole copy and generates independently.

All sizes are in GiB of one chip. The stack rules and preflight use the size in the stack, the
planner uses what this project's server loads; the arithmetic is the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gke_inference.sizing.architectures import Architecture, is_sdxl
from gke_inference.sizing.memory import GIB, device_gib, weights_gib

IMAGE_ROOM_GIB = 2.0
"""Memory next to the weights of an image model, on each chip: what a step needs for four images.
The TPU compiler needs about half a GiB per image (docs/compiler-estimates.md)."""
SDXL_ROOM_GIB = 3.0
"""The same for Stable Diffusion XL, whose decoder works in float32 (docs/compiler-estimates.md)."""
VIDEO_ROOM_GIB = 13.0
"""The same for the decoder of Wan 2.1 at 832x480 pixels, which needs 12.4 GiB for each latent frame
by the TPU compiler, for any number of frames (docs/compiler-estimates.md)."""
VIDEO_STEP_GIB = 2.0
"""The same for a denoising step of 81 frames of that size: 1.8 GiB by the TPU compiler."""
VIDEO_SIZE, VIDEO_FRAMES = "832x480", 81
"""Default size and number of frames of a video, which Wan 2.1 is made for (its model card)."""

_PARAMETERS_PER_RANK = 5_421_440
"""Parameters of an adapter of rank 1: inputs and outputs of all linear layers of FLUX.1's denoiser,
counted with diffusers' `FluxTransformer2DModel`. The image server pads each adapter to all of
them. The UNet of Stable Diffusion XL has half of them (2,706,176), and the blocks of Wan 2.1 1.3B
have a quarter (30 x (8 x 3,072 + 2 x 10,496) = 1,367,040, by its transformer/config.json); both
count as much."""
_RANKS = (4, 8, 16, 32, 64, 128)
"""Ranks that the image server pads adapters to (`workloads/diffusion/config.py`)."""
LARGEST_IMAGE_RANK = _RANKS[-1]
"""Largest rank that it compiles a program for: of an adapter, and of several in a request."""


_SLOTS = 8
"""Adapters that a chip keeps, unless live adapters have more slots."""


def padded_rank(rank: int) -> int:
    """Return the rank that the image server pads an adapter to."""
    return next((each for each in _RANKS if rank <= each), rank)


def adapters_gib(
    given: int, *, rank: int = 16, live_slots: int = 0, live_rank: int = 1, in_request: int = 1
) -> float:
    """Return the memory of the adapters that a chip keeps, in bfloat16, for a model like FLUX.1.

    Args:
        given: Number of adapters that the settings name.
        rank: Maximum rank of those.
        live_slots: Slots of live adapters, or 0 without live adapters.
        live_rank: Maximum rank of live adapters.
        in_request: Maximum number of adapters in a request. The server joins several to one of
            their ranks together, beside them.
    """
    slots, most = max(min(given, _SLOTS), live_slots), max(rank if given else 1, live_rank)
    padded = padded_rank(most)
    joined = padded_rank(in_request * padded) if slots and in_request > 1 else 0
    return (slots * padded + joined) * _PARAMETERS_PER_RANK * 2 / GIB


def served_gib(model: Architecture) -> float:
    """Return the size of an architecture's weights as the image server loads them.

    It keeps the matrices of a narrowed text encoder in 8 bits, regardless of the checkpoint
    (`workloads/engine/diffusion.py`, `--text-encoder-bits`).
    """
    narrow = model.narrow_encoder_billion
    wide = weights_gib(model.parameters_billion - narrow, model.bits)
    return wide + (weights_gib(narrow, 8) if narrow else 0.0)


def image_room_gib(models: Iterable[tuple[str, str]]) -> float:
    """Return the memory next to the weights of the models of a server, in GiB.

    Args:
        models: Weights and name of each model in the stack.
    """
    return max(SDXL_ROOM_GIB if is_sdxl(*each) else IMAGE_ROOM_GIB for each in models)


@dataclass(frozen=True)
class ImageCopy:
    """What a chip of an image server holds, in GiB."""

    of: str
    """Name of its model, or an empty text for all models of the server."""
    weights: float
    adapters: float
    room: float
    """Memory next to them, see `image_room_gib`."""


def image_copies(
    models: Sequence[tuple[str, str, float]], adapters: float, *, has_own_chips: bool
) -> tuple[ImageCopy, ...]:
    """Return what each kind of chip holds: all models, or one each.

    Args:
        models: Weights, name and GiB of each model in the stack, the first one first.
        adapters: GiB of the adapters, which are those of the first model.
        has_own_chips: Whether each model has chips of its own.
    """
    kept = [(name, [(weights, name)], gib) for weights, name, gib in models]
    if not has_own_chips:
        kept = [("", [each[:2] for each in models], sum(gib for _, _, gib in models))]
    return tuple(
        ImageCopy(of, gib, adapters if at == 0 else 0.0, image_room_gib(held))
        for at, (of, held, gib) in enumerate(kept)
    )


def pixels_of(size: str) -> int:
    """Return the pixels of a size such as `832x480`."""
    width, height = (int(side) for side in size.split("x"))
    return width * height


def video_tokens(pixels: int, frames: int) -> int:
    """Return the tokens of a video for Wan 2.1: 16x16 pixels of the first frame, and of every four.

    Args:
        pixels: Pixels of a frame.
        frames: Number of frames.
    """
    return ((frames - 1) // 4 + 1) * pixels // 256


def video_room_gib(sizes: Sequence[str], frames: Sequence[int]) -> float:
    """Return the memory next to the weights of a video model, in GiB.

    That of the decoder grows with the pixels of a frame, and that of a step with the tokens.

    Args:
        sizes: Sizes that requests may use; empty for the default.
        frames: Numbers of frames that requests may use; empty for the default.
    """
    sizes, frames = sizes or (VIDEO_SIZE,), frames or (VIDEO_FRAMES,)
    pixels, reference = max(map(pixels_of, sizes)), pixels_of(VIDEO_SIZE)
    share = video_tokens(pixels, max(frames)) / video_tokens(reference, VIDEO_FRAMES)
    return max(VIDEO_ROOM_GIB * pixels / reference, VIDEO_STEP_GIB * share)


def copy_gib(
    word: str, weights: float, adapters: float = 0.0, room: float = IMAGE_ROOM_GIB
) -> tuple[float, float]:
    """Return the memory that a copy needs of a chip, and the usable memory of the chip, in GiB.

    Args:
        word: Accelerator, by its catalog name.
        weights: GiB of weights.
        adapters: GiB of the adapters that the chip keeps.
        room: GiB next to them, see `image_room_gib` and `video_room_gib`.
    """
    return weights + room + adapters, device_gib(word)


def check_copies_fit(
    word: str,
    weights: float,
    adapters: float = 0.0,
    room: float = IMAGE_ROOM_GIB,
    of: str = "",
) -> str | None:
    """Return why a chip cannot hold a whole copy of a model, or `None` if it can.

    Args:
        word: Accelerator, by its catalog name.
        weights: GiB of weights.
        adapters: GiB of the adapters that the chip keeps.
        room: GiB next to them, see `image_room_gib` and `video_room_gib`.
        of: Name of the model whose chip it is, if each model has chips of its own.
    """
    needed, usable = copy_gib(word, weights, adapters, room)
    if needed <= usable:
        return None
    parts = f"{weights:.1f} GiB of weights plus {room:.3g} GiB"
    if adapters:
        parts = f"{weights:.1f} GiB of weights, {adapters:.1f} of adapters, {room:.3g} free"
    chip = f"each chip of {of}" if of else "each chip"
    return f"needs {needed:.1f} GiB on {chip} ({parts}), one of {word} has {usable:.1f} GiB"
