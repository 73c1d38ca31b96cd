"""Engine settings from flags, environment and hardware, and startup errors of vLLM."""

import asyncio
import json
from pathlib import Path

import pytest

from simulator.engine.replay import TraceRequest, replay, round_robin
from simulator.engine.settings import PREFIX, Deployment, EngineError, deploy
from simulator.server.startup import compile_key, stages, start_up
from simulator.tests.unit.engine.support import deployment
from twin.engines.vllm_flags import parse

RULES = {
    "initialise": 20,
    "weights_gb_per_second": 0.5,
    "weights_streamed_gb_per_second": 2.0,
    "compile_gpu": 60,
    "compile_tpu": 420,
    "compile_cached_gpu": 25,
    "compile_cached_tpu": 97,
}
TPU = {"GKE_INFERENCE_SIM_ACCELERATOR": "tpu-v6e-slice", "GKE_INFERENCE_SIM_CHIPS": "4"}


def on_tpu(mounts: dict[str, str], *flags: str, read_only: tuple[str, ...] = ()):
    return deployment(
        "--tensor-parallel-size=4",
        *flags,
        **TPU,
        GKE_INFERENCE_SIM_SPEED="100000",
        GKE_INFERENCE_SIM_DURATIONS=json.dumps(RULES),
        GKE_INFERENCE_SIM_MOUNTS=json.dumps(mounts),
        GKE_INFERENCE_SIM_READ_ONLY=json.dumps(read_only),
    )


def test_batch_defaults_are_vllms_for_the_hardware():
    h100 = deployment()
    assert (h100.max_batched_tokens, h100.max_sequences) == (8192, 1024)
    v6e = deployment("--tensor-parallel-size=4", **TPU)
    assert (v6e.max_batched_tokens, v6e.max_sequences) == (1024, 256)


@pytest.mark.parametrize(
    ("model", "flags", "logged"),
    [
        ("llama-3.1-8b", (), 449_968),
        ("Qwen/Qwen3-30B-A3B", (), 117_696),
        ("llama-3.1-8b", ("--quantization=fp8",), 502_640),
        ("qwen3-32b", ("--quantization=fp8",), 152_736),
    ],
)
def test_the_kv_cache_has_the_tokens_that_a_real_vllm_logged(
    model: str, flags: tuple[str, ...], logged: int
):
    """Logs of vLLM 0.26.0 on one H100: docs/benchmarks.md, An engine on one H100."""
    given = ("--gpu-memory-utilization=0.9", "--max-model-len=20480", *flags)
    one = deployment(*given, model=model)
    assert one.kv_blocks * one.block_size == pytest.approx(logged, rel=0.04)


def test_numbers_of_half_the_bits_take_half_the_room():
    assert deployment("--kv-cache-dtype=fp8").kv_blocks > 1.9 * deployment().kv_blocks


@pytest.mark.parametrize(
    ("port", "problem"),
    [
        ("tcp://10.0.0.1:8000", "VLLM_PORT 'tcp://10.0.0.1:8000' appears to be a URI"),
        ("http", "VLLM_PORT 'http' must be a valid integer"),
    ],
)
def test_a_port_from_a_service_called_vllm_keeps_the_engine_from_starting(port: str, problem: str):
    with pytest.raises(EngineError, match=problem):
        deployment(VLLM_PORT=port)


def test_auto_length_is_what_fits():
    made = deployment("--max-model-len=auto", GKE_INFERENCE_SIM_ACCELERATOR="nvidia-l4")
    assert 1000 < made.max_model_len < 131_072


@pytest.mark.parametrize(
    ("model", "flags", "problem"),
    [
        ("llama-3.3-70b", (), "torch.OutOfMemoryError"),
        ("qwen3-32b", ("--gpu-memory-utilization=0.75",), "No available memory"),
        ("llama-3.1-8b", ("--tensor-parallel-size=8",), "World size (8) is larger"),
        ("mymodel", (), "size of a model must be in its name"),
        ("llama-3.1-8b", ("--lora-modules", "a=/a"), "LoRA is not enabled"),
    ],
)
def test_what_vllm_could_not_serve_is_refused_in_its_words(
    model: str, flags: tuple[str, ...], problem: str
):
    with pytest.raises(EngineError) as refused:
        deployment(*flags, model=model)
    assert problem in str(refused.value)


def test_a_context_that_does_not_fit_is_refused_with_the_one_that_would():
    with pytest.raises(EngineError, match="estimated maximum model length is"):
        deployment(GKE_INFERENCE_SIM_ACCELERATOR="nvidia-l4")


def test_a_path_without_a_size_is_explained_by_the_served_name():
    made = deployment("--served-model-name=llama-3.1-8b", model="/models/base")
    assert made.shape.parameters_billion == 8.03
    assert made.served_names == ("llama-3.1-8b",)


def test_tpu7x_has_two_devices_a_chip():
    made = deployment(
        "--tensor-parallel-size=2",
        GKE_INFERENCE_SIM_ACCELERATOR="tpu7x",
        GKE_INFERENCE_SIM_CHIPS="1",
    )
    assert (made.devices, made.chips) == (2, 1)


def test_an_engine_that_knows_no_rules_starts_at_once():
    assert stages(deployment(), compiled=False) == {}


def test_stages_follow_the_rules_and_the_size_of_the_model():
    cold = stages(on_tpu({}), compiled=False)
    assert cold == {"initialise": 20, "weights": pytest.approx(32.12), "compile": 420}
    assert stages(on_tpu({}), compiled=True)["compile"] == 97
    assert stages(on_tpu({}, "--load-format=runai_streamer"), compiled=False)[
        "weights"
    ] == pytest.approx(8.03)


def test_a_second_start_finds_the_compiled_programs(tmp_path: Path):
    made = on_tpu({"/cache": str(tmp_path)})
    environment = {"VLLM_XLA_CACHE_PATH": "/cache/xla"}
    asyncio.run(start_up(made, environment))
    assert (tmp_path / "xla" / f"{compile_key(made)}.json").exists()


def test_a_cache_outside_every_mount_or_on_a_read_only_one_keeps_nothing(tmp_path: Path):
    asyncio.run(start_up(on_tpu({"/cache": str(tmp_path)}), {"VLLM_XLA_CACHE_PATH": "/other"}))
    read_only = on_tpu({"/cache": str(tmp_path)}, read_only=("/cache",))
    asyncio.run(start_up(read_only, {"VLLM_XLA_CACHE_PATH": "/cache"}))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flag", ["--max-num-seqs=7", "--max-num-batched-tokens=77"])
def test_changed_shapes_compile_again(flag: str):
    assert compile_key(on_tpu({})) != compile_key(on_tpu({}, flag))


def speculating(text: str) -> Deployment:
    words = ["llama-3.3-70b", "--max-model-len=8192", "--tensor-parallel-size=4"]
    hardware = {PREFIX + "ACCELERATOR": "nvidia-h100-80gb", PREFIX + "CHIPS": "4"}
    more = [f"--speculative-config={text}"] if text else []
    return deploy(parse([*words, *more]), hardware)


def seconds(deployment: Deployment) -> float:
    """Return the mean time between tokens of four requests, replayed."""
    trace = [TraceRequest(0.0, 500, 200) for _ in range(4)]
    return replay(trace, [deployment], round_robin()).mean_tpot()


def test_an_engine_with_drafts_generates_tokens_faster():
    usual = seconds(speculating(""))
    eagle = seconds(speculating('{"method": "eagle3", "num_speculative_tokens": 3}'))
    assert 1.8 < usual / eagle < 3


def test_a_method_whose_speed_is_not_modeled_changes_nothing():
    draft = '{"method": "draft_model", "model": "/draft", "num_speculative_tokens": 3}'
    assert seconds(speculating(draft)) == seconds(speculating(""))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{"method": "ngram"}', "^ValueError: num_speculative_tokens must be provided with"),
        (
            '{"method": "ngram", "num_speculative_tokens": 0}',
            r"^ValueError: Expected num_speculative_tokens to be greater than zero \(0\)\.$",
        ),
        (
            '{"method": "ngram", "num_speculative_tokens": 17}',
            "num_speculative_tokens must be at most 16 in a simulated engine, got 17$",
        ),
        (
            '{"method": "ngram", "num_speculative_tokens": "three"}',
            'num_speculative_tokens must be a whole number, got "three"$',
        ),
        ('[{"method": "ngram"}]', '^--speculative-config: must be a JSON object, got \\[{"method"'),
        ('"ngram"', '^--speculative-config: must be a JSON object, got "ngram"$'),
    ],
)
def test_a_wrong_configuration_of_drafts_stops_the_engine_with_one_message(
    config: str, message: str
):
    with pytest.raises(EngineError, match=message):
        speculating(config)


def test_mtp_drafts_as_many_tokens_as_the_model_has_layers_for():
    words = ["deepseek-ai/DeepSeek-R1", "--max-model-len=8192", "--tensor-parallel-size=8"]
    hardware = {PREFIX + "ACCELERATOR": "nvidia-h200-141gb", PREFIX + "CHIPS": "8"}
    found = deploy(parse([*words, '--speculative-config={"method": "mtp"}']), hardware).speculation
    assert found is not None
    assert found.tokens == 1


BEYOND = (
    "Value error, User-specified max_model_len (40961) is greater than the derived max_model_len "
    "(max_position_embeddings=40960.0 or model_max_length=None in model's config.json)."
)


def of_qwen(*flags: str, **environment: str) -> Deployment:
    arguments = ["/mnt/models/qwen3-32b", "--served-model-name=qwen3-32b", *flags]
    chip = {f"{PREFIX}ACCELERATOR": "nvidia-b200", f"{PREFIX}CHIPS": "1"}
    return deploy(parse(arguments), {**chip, **environment})


def test_a_context_beyond_the_models_ends_the_server_with_vllms_text():
    assert of_qwen("--max-model-len=40960").max_model_len == 40_960
    with pytest.raises(EngineError) as ended:
        of_qwen("--max-model-len=40961")
    assert BEYOND in str(ended.value)


def test_scaled_positions_and_vllms_variable_allow_a_longer_context():
    overridden = of_qwen("--max-model-len=40961", '--hf-overrides={"a": 1}')
    allowed = of_qwen("--max-model-len=40961", VLLM_ALLOW_LONG_MAX_MODEL_LEN="1")
    assert overridden.max_model_len == allowed.max_model_len == 40_961


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--max-num-batched-tokens=2048", "--max-num-seqs=4096"],
            "max_num_batched_tokens (2048) must be greater than or equal to max_num_seqs (4096).",
        ),
        (
            ["--max-num-batched-tokens=300", "--no-enable-chunked-prefill", "--max-model-len=1024"],
            "max_num_batched_tokens (300) is smaller than max_model_len (1024). This effectively ",
        ),
    ],
)
def test_sizes_of_a_step_that_vllm_refuses_end_the_server_with_its_text(
    arguments: list[str], text: str
):
    with pytest.raises(EngineError) as ended:
        deployment(*arguments)
    assert f"1 validation error for SchedulerConfig\n  Value error, {text}" in str(ended.value)


def test_a_small_step_without_a_given_batch_limits_the_batch():
    assert deployment("--max-num-batched-tokens=64").max_sequences == 64
