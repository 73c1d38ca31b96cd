"""Shapes with an entry in the tables, and candidate blocks for each."""

from .estimate import published
from .shapes import DEFAULT_BLOCKS, LANES, AttentionShape, Blocks, rounded

_LARGEST = 2304
"""Limit of a block: twice as much needs more than the 32 MiB of a v6e's VMEM for one kernel."""
_MIDDLE = 1024
_LARGEST_TILE = 2304 * 2304
_COMPUTE = 640
"""Keys multiplied at once, about. The estimate likes a thousand and more a little better, but of
the published times of long sequences all have 512 (docs/kernels.md)."""


def _flux(pixels: int, text: int) -> AttentionShape:
    """Return the shape for FLUX.1: a position per 16 by 16 pixels, after the text."""
    positions = (pixels // 16) ** 2 + text
    return AttentionShape(24, 24, positions, positions, 128, causal=False)


def _wan(frames: int, keys: int | None = None) -> AttentionShape:
    """Return the shape for Wan 2.1 1.3B at 832 by 480 pixels, within the video or to the prompt."""
    positions = (1 + (frames - 1) // 4) * (480 // 16) * (832 // 16)
    return AttentionShape(12, 12, positions, keys or positions, 128, causal=False)


def _prefill(heads: int, kv_heads: int, positions: int) -> AttentionShape:
    return AttentionShape(heads, kv_heads, positions, positions, 128, causal=True)


SHAPES: dict[str, AttentionShape] = {
    **{
        f"flux-{pixels}-{text}": _flux(pixels, text)
        for pixels in (512, 768, 1024)
        for text in (256, 512)  # schnell's and dev's longest prompts
    },
    # the two widths of Stable Diffusion XL's UNet at 1024 by 1024 pixels
    "sdxl-1024-640": AttentionShape(10, 10, 4096, 4096, 64, causal=False),
    "sdxl-1024-1280": AttentionShape(20, 20, 1024, 1024, 64, causal=False),
    **{f"wan-480-{frames}": _wan(frames) for frames in (33, 81)},
    **{f"wan-480-{frames}-text": _wan(frames, 512) for frames in (33, 81)},
    # 8B on one chip and on four; 70B on eight, where a chip has one key head
    "llama-3.1-8b-2048": _prefill(32, 8, 2048),
    "llama-3.1-8b-8192": _prefill(32, 8, 8192),
    "llama-3.1-8b-tp4-8192": _prefill(8, 2, 8192),
    "llama-3.3-70b-tp8-8192": _prefill(8, 1, 8192),
}
"""Shapes with an entry in every table, by name."""


def blocks_for(shape: AttentionShape) -> list[Blocks]:
    """Return the blocks to try for a shape: those that divide it and are not hopelessly small.

    The kernel's default is among them, to compare with, and what was published for the shape.
    """
    found = {DEFAULT_BLOCKS, *published_for(shape)}
    for q in _divisors(rounded(shape.queries)):
        for kv in _divisors(rounded(shape.keys)):
            if not shape.causal and q * kv * 4 < _LARGEST_TILE:
                continue  # a step of a smaller tile is mostly overhead
            # a mask that cuts through a block wastes half of it, so causal blocks may be smaller
            if shape.causal and (q != kv or q * kv * 32 < _LARGEST_TILE):
                continue
            found.add(Blocks(q, kv, _compute(kv)))
    # smaller ones for chips with little VMEM, also where a length has few divisors
    rows, small = (
        max(_all_divisors(rounded(length), _MIDDLE)) for length in (shape.queries, shape.keys)
    )
    for q in {rows, *_divisors(rounded(shape.queries))[-1:]} if not shape.causal else ():
        found.add(Blocks(q, small, _compute(small)))
    return sorted(found)


def published_for(shape: AttentionShape) -> list[Blocks]:
    """Return the blocks that are published for the same positions, head size and mask."""
    return [
        point.blocks
        for point in published()
        if (point.shape.queries, point.shape.keys, point.shape.head_size, point.shape.causal)
        == (shape.queries, shape.keys, shape.head_size, shape.causal)
    ]


def _divisors(length: int) -> list[int]:
    found = _all_divisors(length, _LARGEST)
    return [size for size in found if size >= min(512, length)] or found[-1:]


def _all_divisors(length: int, top: int) -> list[int]:
    return [size for size in range(LANES, min(length, top) + 1, LANES) if length % size == 0]


def _compute(kv: int) -> int:
    """Return the divisor of a block that is nearest to the best size at once."""
    return min(_all_divisors(kv, kv), key=lambda size: max(size / _COMPUTE, _COMPUTE / size))
