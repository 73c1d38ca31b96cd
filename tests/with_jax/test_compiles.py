"""The real TPU compiler, without a TPU: what fits, what does not, and how that is said."""

import jax.numpy as jnp
import pytest
from kernels.compiler import RefusedError, array, compiled, versions
from kernels.paged import compile_paged
from kernels.report import rotary_costs
from kernels.shapes import GENERATIONS, HBM_GIB, AttentionShape, Blocks
from kernels.tables import find, load
from kernels.tuner import compile_at

from tests.with_jax.length import IS_FULL

SOME = GENERATIONS if IS_FULL else ("v6e",)
_LENGTH = 4608 if IS_FULL else 1280
FLUX = AttentionShape(24, 24, _LENGTH, _LENGTH, 128, causal=False)
"""An image of 1,024 pixels a side and 512 tokens; a short run has 512 pixels and 256 tokens."""


@pytest.mark.parametrize("generation", SOME)
def test_the_table_s_blocks_compile_at_flux_s_shape(generation):
    entry = find(FLUX, generation)
    assert entry is not None
    assert compile_at(FLUX, entry.blocks, generation) > 0


@pytest.mark.parametrize("generation", SOME)
def test_a_causal_grouped_prefill_of_odd_length_compiles(generation):
    shape = AttentionShape(8, 2, 1000, 1000, 128, causal=True)
    assert compile_at(shape, Blocks(512, 512, 512), generation) > 0


@pytest.mark.parametrize(
    ("generation", "blocks"),
    [("v5e", Blocks(2048, 2048, 512)), ("v6e", Blocks(16384, 128, 128))],
    ids=GENERATIONS,
)
def test_blocks_that_overflow_vmem_are_refused_with_need_and_limit(generation, blocks):
    shape = AttentionShape(1, 1, blocks.q, blocks.kv, 128, causal=False)
    with pytest.raises(RefusedError) as caught:
        compile_at(shape, blocks, generation)
    refused = caught.value
    assert refused.memory == "VMEM"
    assert refused.needed_mib is not None
    assert refused.needed_mib > refused.limit_mib
    assert f"blocks {blocks} on {generation}" in str(refused)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_program_larger_than_the_chip_s_memory_is_refused_with_what_there_is(generation):
    numbers = int(HBM_GIB[generation] * 2**30 / 2)
    x = array(generation, (numbers // 2**14, 2**14), jnp.bfloat16)
    with pytest.raises(RefusedError) as caught:
        compiled(lambda x: x * 2, x, what="twice the memory")
    assert caught.value.memory == "HBM"
    assert caught.value.limit_mib == pytest.approx(HBM_GIB[generation] * 1024)


def test_the_fused_rotation_moves_a_fifth_less_than_the_models_own_form():
    compared = rotary_costs("v6e", forms=("reference", "fused"))
    rows = {(row["what"], row["form"]): row for row in compared}
    for what in {what for what, _ in rows}:
        reference, fused = rows[what, "reference"], rows[what, "fused"]
        assert fused["bytes_moved"] <= 0.8 * reference["bytes_moved"]
        assert fused["temporary_bytes"] <= reference["temporary_bytes"]


def test_paged_attention_of_an_eighth_of_a_large_model_compiles():
    assert compile_paged("v6e", heads=8, kv_heads=1, head_size=128, context=8192) > 0


def test_an_unknown_generation_is_refused_with_the_list():
    with pytest.raises(ValueError, match="generation: must be one of v5e, v6e, got 'v4'"):
        array("v4", (8, 128), jnp.float32)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_tables_come_from_the_compiler_that_is_installed(generation):
    assert {(one.jax, one.libtpu) for one in load(generation)} == {versions()}
