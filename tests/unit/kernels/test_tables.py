"""Tables of block sizes, and the estimate that ranks what goes into them; no JAX."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.kernels import estimate
from workloads.kernels.candidates import SHAPES, blocks_for
from workloads.kernels.shapes import (
    DEFAULT_BLOCKS,
    GENERATIONS,
    AttentionShape,
    Blocks,
    generation_of,
    rounded,
)
from workloads.kernels.tables import Entry, Measured, choose, find, load, put, save

FLUX = SHAPES["flux-1024-512"]


def entry(**changes: Any) -> Entry:
    made = Entry(
        name="some",
        shape=AttentionShape(2, 2, 1024, 1024, 128, causal=False),
        blocks=Blocks(1024, 1024, 512),
        reason="estimate",
        jax="1",
        libtpu="2",
        date="2026-11-21",
        code_bytes=300_000,
        estimate_ms=1.0,
        default_ms=5.0,
        tried=3,
        refused=1,
    )
    return replace(made, **changes)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_has_an_entry_that_beats_the_default(generation: str, name: str) -> None:
    found = find(SHAPES[name], generation)
    assert found is not None
    assert found.name == name
    assert found.estimate_ms < found.default_ms
    assert found.tried > found.refused


def test_block_sizes_win_more_than_the_goal_at_flux_s_shape() -> None:
    found = find(FLUX, "v6e")
    assert found is not None
    assert found.default_ms / found.estimate_ms > 1.7


def test_an_entry_survives_its_file(tmp_path: Path) -> None:
    measured = entry(measured=Measured(0.7, "TPU v6 lite", "2026-11-22"))
    save("v6e", [measured], tmp_path)
    assert load("v6e", tmp_path) == [measured]
    assert load("v5e", tmp_path) == []


def test_a_new_guess_keeps_the_time_of_the_same_blocks_and_drops_that_of_others(
    tmp_path: Path,
) -> None:
    time = Measured(0.7, "TPU v6 lite", "2026-11-22")
    save("v6e", [entry(measured=time)], tmp_path)
    put("v6e", entry(estimate_ms=0.9), tmp_path)
    assert [(one.estimate_ms, one.measured) for one in load("v6e", tmp_path)] == [(0.9, time)]
    put("v6e", entry(blocks=Blocks(512, 512, 512)), tmp_path)
    assert [one.measured for one in load("v6e", tmp_path)] == [None]


def test_a_shape_without_an_entry_gets_the_nearest_one_s_cut_to_its_length(tmp_path: Path) -> None:
    save("v6e", [entry()], tmp_path)
    shape = AttentionShape(24, 24, 640, 640, 128, causal=False)
    choice = choose(shape, "v6e", tmp_path)
    assert (choice.blocks, choice.source) == (Blocks(640, 640, 128), "nearest")


def test_a_shape_like_no_entry_gets_a_rule(tmp_path: Path) -> None:
    save("v6e", [entry()], tmp_path)
    shape = AttentionShape(4, 4, 300, 300, 64, causal=True)
    choice = choose(shape, "v6e", tmp_path)
    assert (choice.blocks, choice.source) == (Blocks(384, 384, 384), "rule")


def test_an_unknown_generation_is_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match="generation: must be one of v5e, v6e, got 'v9'"):
        choose(FLUX, "v9")


@pytest.mark.parametrize(
    ("sizes", "match"),
    [
        ((100, 128, 128), "q: must be a positive multiple of 128, got 100"),
        ((128, 0, 128), "kv: must be a positive multiple of 128, got 0"),
        ((128, 512, 384), "compute: must divide kv, 512, got 384"),
    ],
)
def test_blocks_off_the_registers_are_refused(sizes: tuple[int, int, int], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Blocks(*sizes)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_candidates_divide_the_padded_sequence_and_have_the_default_among_them(
    shape: AttentionShape,
) -> None:
    found = blocks_for(shape)
    assert DEFAULT_BLOCKS in found
    assert len(found) >= 2
    for blocks in found:
        assert rounded(shape.queries) % blocks.q == 0
        assert rounded(shape.keys) % blocks.kv == 0


def test_jax_s_names_of_chips_are_known() -> None:
    assert generation_of("TPU v6 lite") == "v6e"
    assert generation_of("TPU v5 lite") == "v5e"
    assert generation_of("cpu") is None


def test_a_causal_mask_leaves_the_blocks_that_it_touches() -> None:
    shape = AttentionShape(3, 1, 4096, 4096, 128, causal=True)
    assert estimate.steps(shape, Blocks(1024, 1024, 512)) == 3 * 10
    longer = replace(shape, keys=8192)
    assert estimate.steps(longer, Blocks(1024, 1024, 512)) == 3 * (4 * 4 + 10)
    full = replace(shape, causal=False)
    assert estimate.steps(full, Blocks(1024, 2048, 512)) == 3 * 8


def _fit(rows: list[estimate.Published]) -> "np.ndarray[Any, Any]":
    """Fit the three numbers of the estimate to published times, by relative error."""
    terms = np.array([_terms(one) for one in rows])
    times = np.array([one.ms * 1e6 for one in rows])
    return np.linalg.lstsq(terms / times[:, None], np.ones(len(rows)), rcond=None)[0]


def _terms(one: estimate.Published) -> tuple[float, float, float]:
    steps = one.batch * estimate.steps(one.shape, one.blocks)
    elements = one.batch * one.shape.heads * one.shape.queries * one.shape.head_size
    return (steps * one.code_bytes, -steps, elements)


def test_the_estimate_s_numbers_are_those_that_fit_the_published_times() -> None:
    per_byte, outside, turning = _fit(estimate.published())
    assert 1 / per_byte == pytest.approx(estimate.CODE_BYTES_PER_NS["v6e"], rel=0.01)
    assert outside / per_byte == pytest.approx(estimate.CODE_BYTES_OUTSIDE, rel=0.02)
    assert turning == pytest.approx(estimate.TURNING_NS_PER_ELEMENT, rel=0.02)


def test_a_time_that_the_fit_did_not_see_is_met_within_a_tenth() -> None:
    rows = estimate.published()
    errors = []
    for left_out in rows:
        numbers = _fit([one for one in rows if one is not left_out])
        errors.append(abs(float(np.dot(_terms(left_out), numbers)) / (left_out.ms * 1e6) - 1))
    assert np.median(errors) < 0.02
    assert max(errors) < 0.10
