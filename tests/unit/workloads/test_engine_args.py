from dataclasses import replace

import pytest

from workloads.engine_args import Engine, vllm_args

GPU = Engine(
    kind="gpu",
    context_tokens=8192,
    served_name="llama",
    source="gs://models/llama",
    tensor_parallel=1,
)
TPU = replace(GPU, kind="tpu", source="/mnt/buckets/models/llama", tensor_parallel=4)


def test_a_gpu_streams_its_weights_from_the_bucket():
    args = vllm_args(GPU)
    assert args == [
        "--model=gs://models/llama",
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
    args = vllm_args(replace(GPU, tensor_parallel=8))
    assert '--model-loader-extra-config={"distributed":true}' in args


def test_a_tpu_reads_a_mounted_folder():
    args = vllm_args(TPU)
    assert "--model=/mnt/buckets/models/llama" in args
    assert "--tensor-parallel-size=4" in args
    assert not any(arg.startswith("--load-format") for arg in args)


def test_a_tpu_cannot_stream():
    with pytest.raises(ValueError, match="weights: must be read from a mounted volume on TPU"):
        vllm_args(replace(TPU, source="gs://models/llama"))


def test_adapters_are_loaded_by_name_and_slots_are_bounded():
    folders = {f"a{number}": f"/mnt/a{number}" for number in range(12)}
    args = vllm_args(replace(GPU, adapters=folders, adapter_rank=32))
    at = args.index("--enable-lora")
    assert args[at + 1 : at + 5] == [
        "--max-loras=8",
        "--max-cpu-loras=12",
        "--max-lora-rank=32",
        "--lora-modules",
    ]
    assert set(args[at + 5 :]) == {f"{name}={path}" for name, path in folders.items()}


def test_embeddings_are_pooled_and_have_no_prefix_cache():
    args = vllm_args(replace(GPU, task="embed"))
    assert "--runner=pooling" in args
    assert "--enable-prefix-caching" not in args


def test_what_is_asked_for_is_passed_and_the_rest_is_the_engines():
    asked = replace(GPU, block_size=32, kv_cache_dtype="fp8", max_batch=64, quantization="fp8")
    flags = ["--block-size=32", "--kv-cache-dtype=fp8", "--max-num-seqs=64", "--quantization=fp8"]
    assert [arg for arg in vllm_args(asked) if arg not in vllm_args(GPU)] == flags
