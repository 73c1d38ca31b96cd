"""Attention against float64: the kernel's own code in interpret mode, and the plain form."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.attention import attention
from kernels.shapes import Blocks

from tests.with_jax.length import examples


def exact(q, k, v, *, causal, segments=None, scale=None):
    """Attention in float64, written out."""
    q, k, v = (np.asarray(x.astype(jnp.float32), np.float64) for x in (q, k, v))
    shared = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, shared, 1), np.repeat(v, shared, 1)
    scores = np.einsum("bhsd,bhtd->bhst", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    rows, columns = scores.shape[2:]
    seen = np.ones((q.shape[0], 1, rows, columns), bool)
    if causal:
        seen &= np.arange(columns)[None, :] <= np.arange(rows)[:, None] + columns - rows
    if segments is not None:
        seen &= (segments[0][:, :, None] == segments[1][:, None, :])[:, None]
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    result = np.einsum("bhst,bhtd->bhsd", weights / weights.sum(-1, keepdims=True), v)
    return result, bound(q, scores, v)


def bound(q, scores, v):
    """The error of scores that are rounded once, and of a result that is.

    A relative change d of every score s changes softmax's weights by at most 2 d max|s|, so the
    result by that times max|v|; rounding the result adds d max|v|. In bfloat16 d is 2**-8: the
    queries are rounded after they are scaled, and half a unit is 2**-9. In float32 sums over the
    head and the keys round, too: 2**-18 is far above what they give at these lengths.
    """
    top = np.abs(np.where(np.isfinite(scores), scores, 0)).max()
    return lambda d: d * (2 * top + 1) * np.abs(v).max()


DRIFT = {"float32": 2.0**-18, "bfloat16": 2.0**-8}


@st.composite
def calls(draw):
    queries = draw(st.integers(1, 300), label="queries")
    causal = draw(st.booleans(), label="causal")
    keys = draw(st.integers(queries if causal else 1, 520), label="keys")
    kv_heads = draw(st.sampled_from([1, 2]), label="key heads")
    return {
        "batch": draw(st.integers(1, 2), label="batch"),
        "heads": kv_heads * draw(st.sampled_from([1, 3]), label="heads for each"),
        "kv_heads": kv_heads,
        "queries": queries,
        "keys": keys,
        "size": draw(st.sampled_from([64, 128]), label="head size"),
        "causal": causal,
        "dtype": draw(st.sampled_from(["float32", "bfloat16"]), label="dtype"),
        "blocks": draw(
            st.sampled_from([Blocks(128, 128, 128), Blocks(256, 256, 128), Blocks(128, 256, 256)])
        ),
        "segments": draw(st.booleans(), label="segments") and not causal,
        "seed": draw(st.integers(0, 2**16)),
    }


def made(call):
    random = np.random.default_rng(call["seed"])

    def one(heads, positions):
        shape = (call["batch"], heads, positions, call["size"])
        return jnp.asarray(random.standard_normal(shape), call["dtype"])

    arrays = (
        one(call["heads"], call["queries"]),
        *(one(call["kv_heads"], call["keys"]) for _ in "kv"),
    )
    if not call["segments"]:
        return arrays, None
    ids = []
    for positions in (call["queries"], call["keys"]):
        some = random.integers(0, 2, (call["batch"], positions))
        some[:, 0] = 0  # a query whose segment has no key has no answer
        ids.append(some if call["keys"] > 1 and positions == call["keys"] else 0 * some)
    return arrays, tuple(ids)


def check(call, interpret):
    arrays, segments = made(call)
    ids = None
    if segments is not None:
        ids = (jnp.asarray(segments[0], jnp.int32), jnp.asarray(segments[1], jnp.int32))
    got = attention(
        *arrays,
        causal=call["causal"],
        segment_ids=ids,
        block_sizes=call["blocks"],
        interpret=interpret,
    )
    wanted, error = exact(*arrays, causal=call["causal"], segments=segments)
    assert got.dtype == arrays[0].dtype
    assert got.shape == arrays[0].shape
    np.testing.assert_allclose(
        np.asarray(got, np.float64), wanted, rtol=0, atol=error(DRIFT[call["dtype"]])
    )


@settings(max_examples=examples(4), deadline=None, derandomize=True, database=None)
@given(call=calls())
def test_the_kernel_gives_what_float64_gives_at_any_length_mask_and_grouping(call):
    check(call, interpret=True)


@settings(max_examples=examples(3), deadline=None, derandomize=True, database=None)
@given(call=calls())
def test_other_platforms_give_the_same_by_plain_xla(call):
    check(call, interpret=None)


def test_the_scale_can_be_given():
    q, k, v = (jnp.asarray(np.random.default_rng(i).standard_normal((1, 1, 40, 128)), "float32")
               for i in range(3))  # fmt: skip
    got = attention(q, k, v, causal=False, scale=0.5, block_sizes=Blocks(128, 128, 128),
                    interpret=True)  # fmt: skip
    wanted, error = exact(q, k, v, causal=False, scale=0.5)
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=0, atol=error(2.0**-18))


def test_more_causal_queries_than_keys_are_refused():
    q, k = jnp.zeros((1, 1, 20, 128)), jnp.zeros((1, 1, 10, 128))
    with pytest.raises(ValueError, match="queries: must be at most 10, got 20"):
        attention(q, k, k, causal=True)


def test_arrays_that_do_not_belong_together_are_refused():
    q, k = jnp.zeros((1, 2, 20, 128)), jnp.zeros((2, 2, 20, 128))
    with pytest.raises(ValueError, match=r"q, k, v: must be .* got \(1, 2, 20, 128\)"):
        attention(q, k, k, causal=False)


def test_segments_of_another_length_are_refused():
    q = jnp.zeros((1, 2, 20, 128))
    with pytest.raises(ValueError, match="segment_ids: must be of 20 queries and 20 keys"):
        attention(q, q, q, causal=False, segment_ids=jnp.zeros((1, 21), jnp.int32))
