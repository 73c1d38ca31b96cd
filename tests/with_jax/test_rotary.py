"""Rotary embedding: every form means the same, and what diffusers' own code means."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.rotary import FORMS, half_split, heads_first, permute_projection, rotary

from tests.with_jax.length import examples


def tables(positions, size):
    """Cosines and sines of positions, each angle twice, in float64."""
    angles = np.outer(np.arange(positions), 10_000.0 ** (-np.arange(0, size, 2) / size))
    return np.repeat(np.cos(angles), 2, 1), np.repeat(np.sin(angles), 2, 1)


def narrow(cos, sin):
    """Make tables what the models make them."""
    return jnp.asarray(cos, jnp.float32), jnp.asarray(sin, jnp.float32)


ZEROS = (jnp.zeros((4, 128)), jnp.zeros((4, 128)))


def exact(x, cos, sin, weight=None, epsilon=1e-6):
    """Rotate the pairs (2i, 2i+1) as complex numbers, in float64."""
    x = np.asarray(x.astype(jnp.float32), np.float64)
    if weight is not None:
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * np.asarray(weight, np.float64)
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * (cos[:, ::2] + 1j * sin[:, ::2])
    return np.stack([turned.real, turned.imag], -1).reshape(x.shape)


# float32 keeps 24 bits through some ten operations; a bfloat16 result is rounded to 8 bits, once
TOLERANCE = {"float32": {"rtol": 0, "atol": 3e-6}, "bfloat16": {"rtol": 2.0**-8, "atol": 2e-3}}


def given_x(dtype, shape, seed):
    random = np.random.default_rng(seed)
    return jnp.asarray(np.clip(random.standard_normal(shape), -4, 4), dtype)


def given_weight(with_norm, size):
    return jnp.asarray(np.linspace(0.5, 1.5, size), jnp.float32) if with_norm else None


inputs = {
    "positions": st.integers(1, 1500),
    "size": st.sampled_from([128, 256]),
    "dtype": st.sampled_from(["float32", "bfloat16"]),
    "with_norm": st.booleans(),
    "seed": st.integers(0, 2**16),
}


@settings(max_examples=examples(4), deadline=None, derandomize=True, database=None)
@given(**inputs, form=st.sampled_from(FORMS))
def test_every_form_turns_pairs_as_complex_numbers_do(
    form, positions, size, dtype, with_norm, seed
):
    x, weight = given_x(dtype, (1, 2, positions, size), seed), given_weight(with_norm, size)
    cos, sin = tables(positions, size)
    freqs = narrow(cos, sin)
    order = half_split(size) if form == "half" else np.arange(size)
    got = rotary(x[..., order], freqs, form=form, norm_weight=weight, interpret=True)
    assert got.dtype == x.dtype
    wanted = exact(x, cos, sin, weight)[..., order]
    np.testing.assert_allclose(np.asarray(got, np.float64), wanted, **TOLERANCE[dtype])


@settings(max_examples=examples(3), deadline=None, derandomize=True, database=None)
@given(**inputs, interpret=st.sampled_from([True, None]), flat=st.booleans())
def test_a_projection_is_normed_turned_and_transposed_in_one(
    positions, size, dtype, with_norm, seed, interpret, flat
):
    x, weight = given_x(dtype, (2, positions, 3, size), seed), given_weight(with_norm, size)
    cos, sin = tables(positions, size)
    freqs = narrow(cos, sin)
    shaped = x.reshape(2, positions, -1) if flat else x
    got = heads_first(shaped, freqs, norm_weight=weight, interpret=interpret)
    wanted = exact(jnp.swapaxes(x, 1, 2), cos, sin, weight)
    np.testing.assert_allclose(np.asarray(got, np.float64), wanted, **TOLERANCE[dtype])


def test_permuted_weights_make_half_split_heads_and_leave_the_products_alone():
    random = np.random.default_rng(0)
    heads, size, width, positions = 3, 128, 40, 17
    weights = [jnp.asarray(random.standard_normal((heads * size, width)), "float32") for _ in "qk"]
    hidden = jnp.asarray(random.standard_normal((positions, width)), "float32")
    cos, sin = tables(positions, size)
    freqs = narrow(cos, sin)

    def heads_of(weight):
        return jnp.swapaxes((hidden @ weight.T).reshape(positions, heads, size), 0, 1)

    plain = [rotary(heads_of(weight), freqs, form="reference") for weight in weights]
    split = [
        rotary(heads_of(permute_projection(weight, heads)), freqs, form="half")
        for weight in weights
    ]
    products = [np.einsum("hsd,htd->hst", *map(np.asarray, pair)) for pair in (plain, split)]
    np.testing.assert_allclose(products[1], products[0], rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize(
    ("shape", "match"),
    [((1, 1, 5, 128), "freqs: must be"), ((4, 128), "freqs: must be")],
)
def test_tables_of_other_positions_are_refused(shape, match):
    with pytest.raises(ValueError, match=match):
        rotary(jnp.zeros(shape), ZEROS)


def test_an_unknown_form_is_refused_with_the_list():
    unknown: Any = "complex"
    with pytest.raises(ValueError, match="form: must be one of reference, half, swap, fused"):
        rotary(jnp.zeros((1, 4, 128)), ZEROS, form=unknown)


def test_a_projection_of_other_width_is_refused():
    with pytest.raises(ValueError, match="x: must be"):
        heads_first(jnp.zeros((1, 4, 100)), ZEROS)
