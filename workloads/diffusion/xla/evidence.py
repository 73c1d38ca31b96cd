"""The TPU compiler's figures for Flux at full width, before and after block sizes and rotation.

One double and two single blocks, the nineteenth part of FLUX.1, are compiled for an absent chip
with no weights. All figures are the compiler's, none is a measured time:

- bytes: what `cost_analysis` counts to and from memory; of a kernel, what its author says;
- XLA's own operations: the sum of `estimated_cycles` in the compiled program, as if one ran after
  the other; real programs overlap copies with arithmetic, so the sum is too slow by about half;
- the attention kernel: `kernels.estimate`, fitted to published times of a v6e;
- the rotation kernel: its bytes at the memory's full speed, the least it can take.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import diffusers.models.transformers.transformer_flux as flux
import jax.numpy as jnp
import torch
import torchax
from kernels import compiler, estimate, tables
from kernels.attention import attention
from kernels.shapes import DEFAULT_BLOCKS, AttentionShape, Blocks
from kernels.tuner import CodeSizes
from torchax import interop

from .attention import KernelAttention

HEADS, HEAD_SIZE, TEXT, PATCHES = 24, 128, 512, 4096
"""FLUX.1 at 1024 by 1024 pixels."""
PARTS = 19
"""Number of such parts in the whole model: 19 double and 38 single blocks."""
CLOCK_GHZ = 1.75
HBM_GB_PER_SECOND = 1638.0
"""Memory bandwidth of a v6e (docs.cloud.google.com/tpu/docs/v6e)."""
SHAPE = AttentionShape(HEADS, HEADS, PATCHES + TEXT, PATCHES + TEXT, HEAD_SIZE, causal=False)


@dataclass(frozen=True)
class Variant:
    """One way to compute the blocks."""

    name: str
    attention: str
    """`sdpa`, or the blocks of the kernel: `default` or `table`."""
    rotation: str
    """`diffusers`, a form of `kernels.rotary`, or `fused` with norm and transpose in one pass."""


VARIANTS = (
    Variant("as diffusers has it", "sdpa", "diffusers"),
    Variant("kernel, default blocks", "default", "diffusers"),
    Variant("kernel, blocks of the table", "table", "diffusers"),
    Variant("the same, pairs swapped on the matrix unit", "table", "swap"),
    Variant("the same, norm, rotation and turning in one kernel", "table", "fused"),
)


@dataclass(frozen=True)
class Figures:
    """Compiler's figures for a variant; times in milliseconds for the compiled part."""

    name: str
    bytes_moved: float
    temporary_bytes: int
    xla_ms: float
    attention_ms: float
    rotation_ms: float
    compile_seconds: float

    @property
    def step_ms(self) -> float:
        """Time of one denoising step of the whole model, for one image."""
        return PARTS * (self.xla_ms + self.attention_ms + self.rotation_ms)


def blocks_of(words: str) -> Blocks:
    """Return the kernel's blocks of a variant."""
    return DEFAULT_BLOCKS if words == "default" else tables.choose(SHAPE, "v6e").blocks


def attention_ms(blocks: Blocks) -> float:
    """Return the estimate of one kernel call with these blocks, with the method of the table.

    Raises:
        ValueError: The blocks do not fit.
    """
    code, refusal = CodeSizes().of(SHAPE, blocks, "v6e")
    if code is None:
        raise ValueError(refusal)
    return estimate.kernel_ms(SHAPE, blocks, code, "v6e")


def figures(variant: Variant) -> Figures:
    """Compile a variant for a v6e and return the compiler's figures."""
    begun = time.monotonic()
    found, _ = compiler.compiled(_blocks(variant), *_arrays(), what=variant.name)
    kernels = 0.0
    if variant.attention != "sdpa":
        kernels = 3 * attention_ms(blocks_of(variant.attention))
    # queries and keys of three blocks, read once and written once
    moved = 3 * 2 * 2 * HEADS * (PATCHES + TEXT) * HEAD_SIZE * 2
    rotation = moved / HBM_GB_PER_SECOND / 1e6 if variant.rotation == "fused" else 0.0
    return Figures(
        attention_ms=kernels,
        bytes_moved=found.bytes_moved,
        compile_seconds=time.monotonic() - begun,
        name=variant.name,
        rotation_ms=rotation,
        temporary_bytes=found.temporary_bytes,
        xla_ms=found.cycles / CLOCK_GHZ / 1e6,
    )


def report(say: Callable[[str], None], only: str = "") -> dict[str, Any]:
    """Return the figures of all variants, and the improvement by each half of the work.

    Args:
        say: Called with each result.
        only: Pattern for the names of variants.
    """
    rows: list[Figures] = []
    for variant in VARIANTS:
        if re.search(only, variant.name):
            rows.append(figures(variant))
            say(f"{variant.name}: {rows[-1].step_ms:.0f} ms a step")
    jax_version, libtpu = compiler.versions()
    found: dict[str, Any] = {
        "blocks": str(blocks_of("table")),
        "chip": "v6e, absent: compiled for, not run",
        "jax": jax_version,
        "libtpu": libtpu,
        "model": "FLUX.1, 1024 x 1024, 512 text tokens, bfloat16, batch 1",
        "variants": [{**asdict(row), "step_ms": row.step_ms} for row in rows],
    }
    if not only:
        _, default, table, _, fused = rows
        found["blocks_gain"] = default.step_ms / table.step_ms
        found["rotation_bytes_saved"] = 1 - fused.bytes_moved / table.bytes_moved
        found["rotation_gain"] = table.step_ms / fused.step_ms
        found["whole_gain"] = default.step_ms / fused.step_ms
    return found


def _arrays() -> tuple[Any, ...]:
    def array(*sides: int) -> Any:
        return compiler.array("v6e", sides, jnp.bfloat16)

    weights = {name: array(*value.shape) for name, value in _module().named_parameters()}
    vectors = array(1, PATCHES, 64), array(1, TEXT, 4096), array(1, 768), array(1)
    return weights, *vectors, array(PATCHES, 3), array(TEXT, 3)


def _module() -> Any:
    made: Any = flux.FluxTransformer2DModel
    with torch.device("meta"):
        return made(in_channels=64, num_layers=1, num_single_layers=2).eval().to(torch.bfloat16)


def _blocks(variant: Variant) -> Callable[..., Any]:
    """Return the blocks as a function of weights and arrays."""
    module = _module()
    if variant.attention != "sdpa" or variant.rotation != "diffusers":
        module.set_attn_processor(_processor(variant))

    def run(weights: Any, *arrays: Any) -> Any:
        with torchax.default_env(), torch.no_grad():
            names = ("hidden_states", "encoder_hidden_states", "pooled_projections", "timestep")
            given = dict(zip((*names, "img_ids", "txt_ids"), arrays, strict=True))
            out = torch.func.functional_call(
                module, interop.torch_view(weights), (), interop.torch_view(given)
            )
        return interop.jax_view(out.sample)

    return run


def _processor(variant: Variant) -> Any:
    blocks = blocks_of(variant.attention)
    if variant.rotation == "diffusers":
        return _DiffusersRotation(blocks)
    form: Any = None if variant.rotation == "fused" else variant.rotation
    return KernelAttention("v6e", blocks, form)


class _DiffusersRotation(flux.FluxAttnProcessor):
    """diffusers' processor with the kernel as its attention."""

    def __init__(self, blocks: Blocks) -> None:
        super().__init__()
        self._blocks = blocks

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Run diffusers' code with this attention function."""

        def attend(q: Any, k: Any, v: Any) -> Any:
            turned = (jnp.swapaxes(each, 1, 2) for each in (q, k, v))
            out = attention(*turned, causal=False, block_sizes=self._blocks, generation="v6e")
            return jnp.swapaxes(out, 1, 2)

        own = flux.dispatch_attention_fn
        flux.dispatch_attention_fn = lambda q, k, v, **_: interop.call_jax(attend, q, k, v)
        try:
            return super().__call__(*args, **given)
        finally:
            flux.dispatch_attention_fn = own


if __name__ == "__main__":
    found = report(lambda line: print(line, file=sys.stderr), "".join(sys.argv[1:2]))  # noqa: T201
    json.dump(found, sys.stdout, indent=1)
