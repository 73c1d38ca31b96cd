import json
from dataclasses import replace

import pytest

from gke_inference.serving.launcher.commands import arguments
from gke_inference.serving.launcher.spec import Serving, Speculation
from gke_inference.serving.launcher.vllm import PROMPT_LOOKUP_LONGEST
from gke_inference.serving.live_adapters import slots

GPU = Serving(
    kind="gpu",
    context_tokens=8192,
    served_name="llama",
    source="gs://models/llama",
    tensor_parallel=1,
)
TPU = replace(GPU, kind="tpu", source="/mnt/buckets/models/llama", tensor_parallel=4)


def test_a_gpu_streams_its_weights_from_the_bucket():
    args = arguments(GPU)
    assert args == [
        "gs://models/llama",
        "--served-model-name=llama",
        "--port=8000",
        "--tensor-parallel-size=1",
        "--max-model-len=8192",
        "--gpu-memory-utilization=0.9",
        "--no-enable-log-requests",
        "--load-format=runai_streamer",
        "--enable-prefix-caching",
    ]


def test_several_gpus_share_the_reading():
    args = arguments(replace(GPU, tensor_parallel=8))
    assert '--model-loader-extra-config={"distributed":true}' in args


def test_a_tpu_reads_a_mounted_folder():
    args = arguments(TPU)
    assert args[0] == "/mnt/buckets/models/llama"
    assert "--tensor-parallel-size=4" in args
    assert not any(arg.startswith("--load-format") for arg in args)


def test_adapters_are_loaded_by_name_and_slots_are_bounded():
    folders = {f"a{number}": f"/mnt/a{number}" for number in range(12)}
    room = slots(None, len(folders), 32)
    args = arguments(
        replace(
            GPU,
            adapters=folders,
            adapter_rank=room.rank,
            adapter_slots=room.in_batch,
            adapters_cached=room.cached,
        )
    )
    at = args.index("--enable-lora")
    assert args[at + 1 : at + 5] == [
        "--max-loras=8",
        "--max-cpu-loras=12",
        "--max-lora-rank=32",
        "--lora-modules",
    ]
    assert set(args[at + 5 :]) == {f"{name}={path}" for name, path in folders.items()}


def test_embeddings_are_pooled_and_have_no_prefix_cache():
    args = arguments(replace(GPU, task="embed"))
    assert "--runner=pooling" in args
    assert "--enable-prefix-caching" not in args


def test_what_is_asked_for_is_passed_and_the_rest_is_the_engines():
    asked = replace(GPU, block_size=32, kv_cache_dtype="fp8", max_batch=64, quantization="fp8")
    flags = ["--block-size=32", "--kv-cache-dtype=fp8", "--max-num-seqs=64", "--quantization=fp8"]
    assert [arg for arg in arguments(asked) if arg not in arguments(GPU)] == flags


@pytest.mark.parametrize(
    ("guess", "config"),
    [
        (
            Speculation("ngram", 4),
            {"method": "ngram", "prompt_lookup_max": PROMPT_LOOKUP_LONGEST},
        ),
        (Speculation("draft", 4, "/mnt/d"), {"method": "draft_model", "model": "/mnt/d"}),
        (Speculation("eagle3", 4, "/mnt/e"), {"method": "eagle3", "model": "/mnt/e"}),
        (Speculation("mtp", 4), {"method": "mtp"}),
    ],
)
def test_every_method_of_speculation_has_its_config(guess: Speculation, config):
    (flag,) = [
        arg
        for arg in arguments(replace(GPU, speculation=guess))
        if arg.startswith("--speculative-config=")
    ]
    found = json.loads(flag.partition("=")[2])
    assert found == {**config, "num_speculative_tokens": 4}
