"""Estimates of NVIDIA's aiconfigurator for published rows, where it is installed.

It is no dependency: install it beside this project (`uv pip install aiconfigurator`) to compare.
Rows that it cannot answer, such as those it holds to exceed the memory, have no estimate.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from planner.speed.constants import engine_of
from planner.speed.points import Point

Times = tuple[float, float]
"""Milliseconds to the first token, and between tokens."""

_MODELS = {
    "DeepSeek-R1": "deepseek-ai/DeepSeek-R1",
    "DeepSeek-R1-NVFP4": "deepseek-ai/DeepSeek-R1",
    "DeepSeek-V3": "deepseek-ai/DeepSeek-V3",
    "DeepSeek-V3.1-NVFP4": "deepseek-ai/DeepSeek-V3",
    "Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "Qwen3-235B-A22B-FP8": "Qwen/Qwen3-235B-A22B",
}
_SYSTEMS = {
    "nvidia-b200": "b200_sxm",
    "nvidia-gb200": "gb200",
    "nvidia-h100-80gb": "h100_sxm",
    "nvidia-h200-141gb": "h200_sxm",
}
_BACKENDS = {"tensorrt": "trtllm", "vllm": "vllm", "sglang": "sglang"}
_MODES = ("SILICON", "HYBRID")
"""Its measured kernels, then its estimates where it has no measurement."""
_QUANTIZED = {
    16: {"gemm_quant_mode": "bfloat16", "moe_quant_mode": "bfloat16"},
    8: {"gemm_quant_mode": "fp8", "moe_quant_mode": "fp8", "kvcache_quant_mode": "fp8"},
    4: {"gemm_quant_mode": "nvfp4", "moe_quant_mode": "nvfp4", "kvcache_quant_mode": "fp8"},
}


@cache
def estimator() -> Callable[..., Any] | None:
    """Return its function for one estimate; None if it is not installed."""
    try:
        return import_module("aiconfigurator.cli.api").cli_estimate
    except ImportError:
        return None


def estimate(point: Point) -> Times | None:
    """Return its estimate of a closed loop; None if it has none."""
    call, row = estimator(), point.row
    model, system = _MODELS.get(row["model"]), _SYSTEMS.get(row["accelerator"])
    if call is None or model is None or system is None:
        return None
    tensor, _, experts = row["parallelism"].removeprefix("tp").partition("ep")
    split = (
        {"moe_tp_size": int(tensor) // int(experts), "moe_ep_size": int(experts)}
        if point.shape.is_mixture
        else {}
    )
    for mode in _MODES:
        try:
            found = call(
                model, system, backend_name=_BACKENDS[engine_of(row["engine"])], database_mode=mode,
                isl=round(float(point.work.given[0])), osl=round(float(point.work.made[0])),
                batch_size=round(point.asked), tp_size=int(tensor), **split,
                **_QUANTIZED[point.shape.bits],
            )  # fmt: skip
        except Exception:  # noqa: BLE001, S112 - it raises many kinds for what it cannot answer
            continue
        return float(found.ttft), float(found.tpot)
    return None
