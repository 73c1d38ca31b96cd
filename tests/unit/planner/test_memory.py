"""Whether a model fits: the arithmetic of memory, and what a refusal says."""

from typing import Any

import pytest

from gke_inference.rungs import check_rung
from planner.memory import check_fit, kv_cache_gib, weights_gib


def rung(accelerator, shape):
    field = {"topology": shape} if isinstance(shape, str) else {"count": shape}
    args: Any = {"accelerator": accelerator, "provisioning": "on-demand", **field}
    return check_rung(args)


def test_weights_are_parameters_times_bits():
    assert weights_gib(8.03, 16) == pytest.approx(14.96, abs=0.01)
    assert weights_gib(70.6, 8) == pytest.approx(65.75, abs=0.01)
    with pytest.raises(ValueError, match="must be positive, got 0 billion"):
        weights_gib(0, 16)


def test_a_kv_cache_is_a_key_and_a_value_per_layer_and_head():
    assert kv_cache_gib(8192, layers=32, kv_heads=8, head_size=128) == pytest.approx(1.0)


# What GoogleCloudPlatform/accelerated-platforms runs: model, billions, bits, accelerator, shape.
RUNS = [
    (32.8, 16, "nvidia-h100-80gb", 1),
    (70.6, 16, "nvidia-h100-80gb", 4),
    (32.8, 16, "nvidia-l4", 8),
    (70.6, 16, "nvidia-rtx-pro-6000", 2),
    (32.8, 16, "tpu-v6e", "2x2"),
    (27.4, 16, "tpu-v6e", "2x4"),
    (32.8, 16, "tpu-v5e", "2x4"),
    (8.03, 16, "nvidia-l4", 1),
]


@pytest.mark.parametrize(("billions", "bits", "accelerator", "shape"), RUNS)
def test_models_that_are_known_to_run_fit(billions, bits, accelerator, shape):
    assert check_fit(rung(accelerator, shape), weights_gib(billions, bits), 0.1) is None


def test_a_model_that_does_not_fit_is_refused_with_the_numbers_and_what_would_hold_it():
    reason = check_fit(rung("tpu-v6e", "2x2"), weights_gib(70.6, 16))
    assert reason == (
        "needs 151.2 GiB (131.5 GiB of weights and 15% beside them), "
        "tpu-v6e 2x2 has 115.2 GiB (90% of 4 x 32 GiB); 2x4 would hold it"
    )


def test_a_gpu_that_is_too_small_is_told_the_count_that_is_not():
    reason = check_fit(rung("nvidia-l4", 1), weights_gib(32.8, 16))
    assert reason is not None
    assert reason.endswith("count 4 would hold it")


def test_nothing_is_suggested_where_no_shape_would_do():
    reason = check_fit(rung("nvidia-l4", 8), weights_gib(405, 16))
    assert reason is not None
    assert reason.endswith("(90% of 8 x 24 GiB)")
