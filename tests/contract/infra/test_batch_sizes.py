"""Sizes of a step of vLLM that a stack can set: what the engine refuses together is refused."""

import json
from typing import Any

import pytest

from infra.reading.load import STACKS, parse, platform_of
from infra.stack.problems import StackError

MODEL = "llama-3.1-8b"
L4 = {"rungs": [{"accelerator": "nvidia-l4", "count": 8, "provisioning": "spot"}]}
H100 = {"rungs": [{"accelerator": "nvidia-h100-80gb", "count": 8, "provisioning": "spot"}]}


def read(chips: dict[str, Any], engine_args: dict[str, Any], **more: Any) -> Any:
    platform = platform_of(STACKS / "Pulumi.local.yaml")
    platform["capacity"]["chips"] = chips
    replicas = {"min": 1, "max": 2}
    platform["models"][MODEL] |= {"capacity": "chips", "form": "single", "replicas": replicas}
    platform["models"][MODEL]["settings"] = {"engine_args": engine_args, **more}
    return parse(json.dumps(platform)).models[MODEL].settings


REFUSED = [
    (
        L4,
        {"max-num-batched-tokens": 512},
        {"max_batch": 1024},
        "engine_args.max-num-batched-tokens must be at least 1024, the largest batch, got 512",
    ),
    (
        L4,
        {},
        {"max_batch": 2049},
        "max_batch must be at most 2048, the tokens of a step on nvidia-l4, got 2049; more needs "
        "max-num-batched-tokens in engine_args, at least as large",
    ),
    (
        H100,
        {"max-num-batched-tokens": "8k", "enable-chunked-prefill": False},
        {},
        "engine_args.max-num-batched-tokens must be at least the context of 8192 tokens, got "
        "8000: prompts are not divided into chunks",
    ),
    (
        H100,
        {"long-prefill-token-threshold": 8193},
        {},
        "engine_args.long-prefill-token-threshold must be at most the context of 8192 tokens, "
        "got '8193'",
    ),
    (
        H100,
        {"max-num-active-seqs": 65},
        {"max_batch": 64},
        "engine_args.max-num-active-seqs must be at most 64, got '65'",
    ),
]


@pytest.mark.parametrize(("chips", "engine_args", "more", "message"), REFUSED)
def test_sizes_that_vllm_refuses_together_are_refused(
    chips: Any, engine_args: Any, more: Any, message: str
):
    with pytest.raises(StackError) as refused:
        read(chips, engine_args, **more)
    assert str(refused.value) == f"models.{MODEL}.settings.{message}"


@pytest.mark.parametrize(
    ("chips", "engine_args", "more"),
    [
        (L4, {"max-num-batched-tokens": 1024}, {"max_batch": 1024}),
        (L4, {}, {"max_batch": 2048}),
        (L4, {"max-num-batched-tokens": "4K"}, {"max_batch": 4096}),
        (L4, {"performance-mode": "throughput"}, {"max_batch": 4096}),
        (H100, {}, {"max_batch": 4096}),
        (L4, {"enable-chunked-prefill": False}, {"max_batch": 4096}),
        (H100, {"max-num-batched-tokens": "8K", "enable-chunked-prefill": False}, {}),
        (H100, {"max-num-batched-tokens": 512}, {}),
    ],
)
def test_sizes_that_vllm_takes_are_accepted(chips: Any, engine_args: Any, more: Any):
    assert read(chips, engine_args, **more).engine_args == engine_args
