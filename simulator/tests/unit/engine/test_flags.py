"""vLLM's command line, as the simulated engine reads it."""

import pytest

from twin.engines import vllm_flags as flags
from twin.engines.vllm_flags import human_readable_int, parse


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        parse(argv)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["serve", "m/llama-8b", "--max-model-len", "4096"],
        ["m/llama-8b", "--max-model-len=4096"],
        ["--model", "m/llama-8b", "--max_model_len=4096"],
        ["--model=m/llama-8b", "--max-model-len", "4K"],
    ],
)
def test_all_the_ways_to_write_a_flag_give_the_same(argv: list[str]):
    found = parse(argv)
    assert (found.model, found.max_model_len) == ("m/llama-8b", 4096)


def test_an_unknown_flag_is_refused_as_vllm_refuses_it(capsys: pytest.CaptureFixture[str]):
    message = refused(["serve", "m", "--tensor-paralel-size", "4"], capsys)
    assert "vllm serve: error: unrecognized arguments: --tensor-paralel-size" in message


def test_a_flag_that_this_version_has_dropped_is_refused(capsys: pytest.CaptureFixture[str]):
    assert "--task" in refused(["serve", "m", "--task", "embed"], capsys)


def test_a_prefix_of_a_flag_is_no_flag(capsys: pytest.CaptureFixture[str]):
    assert "--max-model" in refused(["serve", "m", "--max-model", "1"], capsys)


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["--tensor-parallel-size", "two"], "invalid int value: 'two'"),
        (["--kv-cache-dtype", "fp9"], "invalid choice: 'fp9'"),
        (["--runner", "embedding"], "invalid choice: 'embedding'"),
        (["--kv-transfer-config", "{"], "cannot be converted to json"),
        (["--max-num-batched-tokens", "1.5K"], "Decimals are not allowed"),
    ],
)
def test_a_wrong_value_is_refused(
    argv: list[str], problem: str, capsys: pytest.CaptureFixture[str]
):
    assert problem in refused(["serve", "m", *argv], capsys)


def test_booleans_have_a_negative_form():
    assert parse(["m", "--no-enable-prefix-caching"]).enable_prefix_caching is False
    assert parse(["m", "--enable-prefix-caching"]).enable_prefix_caching is True
    assert parse(["m"]).enable_prefix_caching is None


def test_json_flags_are_read_whole_or_key_by_key():
    whole = parse(["m", "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}'])
    dotted = parse(
        [
            "m",
            "--speculative-config.method",
            "ngram",
            "--speculative-config.num_speculative_tokens=3",
        ]
    )
    assert whole.speculative_config == dotted.speculative_config
    assert whole.speculative_config["num_speculative_tokens"] == 3


def test_lists_take_several_values():
    found = parse(["--model=m", "--lora-modules", "a=/a", "b=/b", "--enable-lora"])
    assert found.lora_modules == ["a=/a", "b=/b"]
    assert found.enable_lora is True


def test_short_names_and_aliases_are_known():
    found = parse(["m", "-tp", "4", "-q", "fp8", "--device-memory-utilization", "0.8", "-O2"])
    assert (found.tensor_parallel_size, found.quantization) == (4, "fp8")
    assert (found.gpu_memory_utilization, found.optimization_level) == (0.8, "2")


def test_tool_choice_needs_a_parser():
    with pytest.raises(SystemExit, match="requires --tool-call-parser"):
        parse(["m", "--enable-auto-tool-choice"])


@pytest.mark.parametrize(
    ("text", "value"), [("1k", 1000), ("1K", 1024), ("25.6k", 25600), ("7", 7)]
)
def test_sizes_are_written_for_people(text: str, value: int):
    assert human_readable_int(text) == value


def test_the_table_is_one_version_of_vllm_and_holds_the_flags_the_docs_name():
    table = flags.flag_table()
    assert flags.version() == "0.32.0"
    assert len(table["flags"]) > 300
    assert {"--max-num-seqs", "--shutdown-timeout", "--max-num-queued-reqs"} <= set(table["flags"])


REFUSED = [
    (
        ["--enable-auto-tool-choice", "--tool-call-parser=llama3-json"],
        "KeyError: 'invalid tool call parser: llama3-json (chose from { apertus,cohere_command3,",
    ),
    (
        ["--reasoning-parser=deepseek"],
        "KeyError: \"Reasoning parser 'deepseek' not found. Available parsers: cohere_command3, ",
    ),
    (
        ["--attention-backend=flashattn"],
        "ValueError: Unknown attention backend: 'FLASHATTN'. Valid options are: FLASH_ATTN, ",
    ),
    (
        ["--optimization-level=9"],
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
        "optimization_level\n  Input should be 0, 1, 2 or 3 [type=enum, input_value='9', ",
    ),
    (["--tokenizer-mode=fast"], "ValueError: No tokenizer registered for tokenizer_mode='fast'."),
]


@pytest.mark.parametrize(("arguments", "text"), REFUSED, ids=lambda value: str(value)[:30])
def test_a_name_that_vllm_does_not_have_ends_the_server_with_its_text(
    arguments: list[str], text: str
):
    with pytest.raises(SystemExit) as ended:
        parse(["m", *arguments])
    assert str(ended.value.code).startswith(text)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--enable-auto-tool-choice", "--tool-call-parser=own", "--tool-parser-plugin=/mnt/own.py"],
        ["--tool-call-parser=own"],
        ["--reasoning-parser=own", "--reasoning-parser-plugin=/mnt/own.py"],
        ["--attention-backend=flash_attn"],
        ["--attention-backend=auto"],
    ],
)
def test_names_of_plugins_and_names_in_lower_case_are_taken(arguments: list[str]):
    assert parse(["m", *arguments]).model == "m"


def test_the_release_for_tpus_lacks_flags_and_names_of_the_release_for_gpus(
    capsys: pytest.CaptureFixture[str],
):
    with pytest.raises(SystemExit) as ended:
        parse(["m", "--tool-strict-level=auto"], "0.29.0")
    assert ended.value.code == 2
    assert "error: unrecognized arguments: --tool-strict-level=auto" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="Reasoning parser 'plamo3' not found"):
        parse(["m", "--reasoning-parser=plamo3"], "0.29.0")
    assert parse(["m", "--reasoning-parser=plamo3", "--tool-strict-level=auto"]).model == "m"
