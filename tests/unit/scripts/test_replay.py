"""A trace is computed for a fleet that nobody has, or refused in one line."""

import json

import pytest
from typer.testing import CliRunner

from scripts.app import build_app
from scripts.terminal.console import CommandError
from twin.host.paths import REPOSITORY

MODEL = ["--model", "meta-llama/Llama-3.1-8B"]
L4 = [*MODEL, "--accelerator", "nvidia-l4"]
FITS = ["--flag=--max-model-len=8192"]


def rows(*arguments):
    result = CliRunner().invoke(build_app(("replay",)), ["replay", *arguments, "-o", "json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_more_replicas_answer_more_within_the_slo():
    few, many = rows(
        "mixed_lengths", *L4, *FITS, "--replicas", "1", "--replicas", "4", "--rate", "5",
        "--seconds", "4", "--tpot-ms", "80",
    )  # fmt: skip
    assert (few["replicas"], many["replicas"]) == (1, 4)
    assert few["requests"] == many["requests"] == many["answered"] == 20
    assert many["goodput_share"] > few["goodput_share"]


def test_the_shipped_picker_finds_prefixes_that_taking_turns_computes_again():
    fleet = ["--model", "Qwen/Qwen3-32B", "--accelerator", "nvidia-h100-80gb", "--chips", "2"]
    load = ["unequal_hardware", *fleet, "--replicas", "4", "--rate", "20", "--seconds", "4"]
    (picked,), (turns,) = rows(*load), rows(*load, "--routing", "round-robin")
    assert picked["prefix_hit_rate"] > turns["prefix_hit_rate"]


def test_adapters_get_the_slots_of_their_workload():
    (row,) = rows("lora", *L4, *FITS, "--replicas", "2", "--rate", "4", "--seconds", "3")
    assert row["answered"] == 12


def test_a_trace_of_ones_own_is_a_file_of_json_lines(tmp_path):
    file = tmp_path / "trace.jsonl"
    entry = {"prompt_tokens": 700, "output_tokens": 5, "group": "g", "prefix_tokens": 640}
    file.write_text("\n".join(json.dumps({"arrival": at, **entry}) for at in (0, 4)))
    (row,) = rows(str(file), *L4, *FITS)
    assert (row["requests"], row["rate_qps"]) == (2, 0.5)
    assert row["prefix_hit_rate"] == pytest.approx(640 / 1400, abs=0.001)


def test_responses_of_one_token_have_no_time_per_token(tmp_path):
    file = tmp_path / "trace.jsonl"
    file.write_text(json.dumps({"arrival": 0, "prompt_tokens": 700, "output_tokens": 1}))
    (row,) = rows(str(file), *L4, *FITS)
    assert (row["answered"], row["tpot_ms"]) == (1, None)
    found = CliRunner().invoke(build_app(("replay",)), ["replay", str(file), *L4, *FITS])
    assert found.output.splitlines()[2].split()[6:8] == ["-", "-"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.jsonl", *L4], "TRACE: must be a file or one of .*got 'nowhere.jsonl'"),
        (["lora", *L4, "--routing", "best"], "--routing: must be one of .*got 'best'"),
        (
            ["lora", *MODEL, "--accelerator", "abacus"],
            "--accelerator: must be one of .*got 'abacus'",
        ),
        (["lora", *L4, "--rate", "0"], "--rate: must be a number above 0, got 0"),
        (
            ["mixed_lengths", *L4, "--flag=--max-model-len=9000000"],
            "^--flag: the engine does not start",
        ),
        (["mixed_lengths", *L4, "--flag=--nope"], "^--flag: unrecognized arguments: --nope$"),
        (["mixed_lengths", *L4, "--chips", "3"], "^--chips: must be a power of 2, got 3"),
        (["mixed_lengths", "--model", "", *L4[2:]], "^--model: must be a model ID"),
        ([str(REPOSITORY), *L4], "^TRACE: must be a readable file, got .*: is a directory"),
        (["", *L4], "^TRACE: must be a file or one of .*, got ''"),
    ],
)
def test_what_cannot_be_replayed_is_one_message(arguments, message):
    with pytest.raises(CommandError, match=message):
        rows(*arguments)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "a trace must have a request"),
        ("{}", "line 1: arrival: is required"),
        ('{"arrival": 0, "prompt_tokens": 0, "output_tokens": 1}', "line 1: prompt_tokens and"),
        ('{"arrival": 0, "prompt": 1, "prompt_tokens": 1, "output_tokens": 1}', "line 1: prompt:"),
        ("[", "line 1: must be a JSON object, got"),
    ],
)
def test_a_line_that_is_no_request_is_named(tmp_path, line, message):
    file = tmp_path / "trace.jsonl"
    file.write_text(line)
    with pytest.raises(CommandError, match=message):
        rows(str(file), *L4, *FITS)
