"""`gke-inference plan`: words and numbers that it refuses, each in one line."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gke_inference.catalogue.input_error import InputError
from infra.reading.load import STACKS, read
from scripts.app import build_app
from scripts.terminal.console import CommandError
from scripts.terminal.options import check_positive, check_region, check_words, option_of


def said(*arguments: str) -> str:
    answer = CliRunner().invoke(build_app(("plan",)), ["plan", *arguments])
    assert isinstance(answer.exception, CommandError), answer.output
    return str(answer.exception)


def printed(*arguments: str) -> Any:
    answer = CliRunner().invoke(build_app(("plan",)), ["plan", *arguments, "-o", "json"])
    assert answer.exit_code == 0, answer.exception
    return json.loads(answer.output)


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("--accelerator", "tpu-v6", "must be one of nvidia-a100-40gb, "),
        ("--bits", "7", "must be one of 4, 8, 16, 32, got 7"),
        (
            "--context",
            "-1",
            "must be at least the 1200 tokens of input and output together, or 0, ",
        ),
        (
            "--context",
            "10",
            "must be at least the 1200 tokens of input and output together, or 0, ",
        ),
        ("--adapters", "99", "must be 0 to 64, the most of one batch, got 99"),
        ("--images", "1", "must be 0 for llama-3.1-8b: it accepts none, or "),
        ("--kv-bits", "4", "must be one of 8, 16, got 4"),
        ("--load", "llama-3.1-8b=5", "must be omitted without --stack, got 'llama-3.1-8b=5'"),
        ("--limits", "cloud", "must be omitted without --stack, got 'cloud'"),
        ("--image-size", "8x8", "must be omitted without --images, got '8x8'"),
        ("--name", "chat", "must be omitted without --write, got 'chat'"),
        ("--context", "200000", "must be at most 131072, the limit of llama-3.1-8b, got 200000"),
        ("--input", "0", "must be a number above 0, got 0"),
        ("--output", "-5", "must be a number above 0, got -5"),
        ("--pick", "2", "must be omitted without --explain or --write, got 2"),
        ("--prefix-share", "1", "must be at least 0 and below 1, got 1.0"),
        ("--provisioning", "calendar", "must be one of reservation, on-demand, flex-start, spot"),
        ("--rate", "nan", "must be a number above 0, got nan"),
        ("--region", "us-cental1", "must be one of "),
        ("--tpot-p95", "-3", "must be a number above 0, got -3"),
        ("--ttft-p95", "inf", "must be a number above 0, got inf"),
        ("--ttft-p95", "nan", "must be a number above 0, got nan"),
        ("--utilization", "2", "must be above 0 and at most 1, got 2.0"),
    ],
)
def test_a_word_or_number_that_cannot_be_is_refused_in_one_line(option: str, value: str, rule: str):
    message = said("llama-3.1-8b", option, value)
    assert message.startswith(f"{option}: {rule}")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--explain", "--pick", "900"), "--pick: must be 1 to "),
        (("-o", "json", "--explain"), "--explain: must be omitted with -o json"),
        (
            ("-o", "yaml", "--conversations", "5"),
            "--conversations: must be omitted with -o yaml, got 5",
        ),
        (("--errors", "--rate", "5"), "MODEL: must be omitted with --errors or --against, got"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options, message: str):
    assert said("llama-3.1-8b", *options).startswith(message)


@pytest.mark.parametrize(
    "option", [("--input", "5"), ("--kv-bits", "8"), ("--context", "9"), ("--every",)]
)
def test_a_model_of_images_refuses_options_of_text(option):
    rule = "must be omitted for a model that generates images"
    assert said("flux.1-schnell", *option).startswith(f"{option[0]}: {rule}")


def test_images_are_tokens_of_the_prompt():
    assert said("qwen3-vl-8b", "--images", "1", "--image-size", "wide") == (
        "--image-size: must be WIDTHxHEIGHT in pixels, got 'wide'"
    )
    few = ("qwen3-vl-8b", "--region", "us-central1", "--rows", "1", "--input", "100")
    without, beside = (
        printed(*few, *more)["choices"][0]["ttft_p95_ms"]["value"]
        for more in ((), ("--images", "4"))
    )
    assert beside > without


def test_the_plan_of_a_stack_keeps_every_other_model_and_says_why():
    found = printed("--stack", "prod", "--load", "gemma-3-27b=20,500,100")
    assert found["kept"] == {
        "llama-3.3-70b": "it has disk",
        "qwen3-embedding-0.6b": "its task is embed",
    }
    assert found["loads"]["gemma-3-27b"] == {"rate": 20, "given": 500, "made": 100}
    costs = [one["usd_per_hour"]["value"] for one in found["frontier"]]
    assert costs == sorted(costs, reverse=True)
    shares = [one["temporary_share"] for one in found["frontier"]]
    assert shares == sorted(shares)
    assert found["proposed"] == 0
    models = found["frontier"][0]["models"]
    assert models["gemma-3-27b"]["hardware"].startswith("tpu-")
    assert models["gemma-3-27b standby"]["is_standby"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("llama-3.1-8b", "--stack", "prod"), "MODEL: must be omitted with --stack, got"),
        (("--stack", "prod", "--write", "dev"), "--write: must be prod, the stack of --stack"),
        (("--stack", "prod", "--load", "nobody=3"), "--load: must name one of llama-3.1-8b, "),
        (("--stack", "prod", "--load", "qwen3-32b=x"), "--load: must be MODEL=RATE or "),
        (
            ("--stack", "prod", "--load", "llama-3.3-70b=3"),
            "--load: must name a model whose hardware the plan can choose, got 'llama-3.3-70b': it",
        ),
        (
            ("--stack", "prod", "--load", "qwen3-32b=1", "--load", "qwen3-32b=2"),
            "--load: must name each model once, got 'qwen3-32b' twice",
        ),
        (("--stack", "prod", "--load", "qwen3-32b=0"), "--load: must be MODEL=RATE or "),
        (("--stack", "prod", "--budget", "-1"), "--budget: must be a number above 0"),
        (("--stack", "prod", "--budget", "1000"), "--budget: must be at least $"),
    ],
)
def test_a_plan_of_a_stack_that_cannot_be_is_refused(options, message: str):
    assert said(*options).startswith(message)


def test_the_plan_of_a_stack_is_written_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    shutil.copy(STACKS / "Pulumi.prod.yaml", tmp_path)
    monkeypatch.setattr("scripts.plan.stack.STACKS", tmp_path)
    before = (tmp_path / "Pulumi.prod.yaml").read_text()
    arguments = ("--stack", "prod", "--write", "prod", "--load", "llama-3.1-8b=20")
    answer = CliRunner().invoke(build_app(("plan",)), ["plan", *arguments])
    assert answer.exit_code == 0, answer.exception
    platform = read("prod", tmp_path)
    model = platform.models["llama-3.1-8b"]
    assert model.capacity == "llama-3-1-8b-plan"
    rungs = platform.capacity["llama-3-1-8b-plan"].rungs
    assert {(rung.accelerator or "").partition("-")[0] for rung in rungs} == {"tpu", "nvidia"}
    assert platform.models["llama-3.3-70b"].capacity == "heavy"
    written = (tmp_path / "Pulumi.prod.yaml").read_text()
    assert written != before
    assert "&id" not in written


def test_lengths_that_no_model_takes_name_both_options():
    message = said("llama-3.1-8b", "--input", "200000")
    assert message.startswith("--input and --output: must be at most the 131072 tokens")


def test_a_misspelt_word_gets_the_right_one():
    assert said("llama-3.1-8b", "--region", "us-cental1").endswith("did you mean 'us-central1'?")
    assert said("lama-3.1-8b").endswith("did you mean 'llama-3.1-8b'?")


def test_pictures_refuse_a_rate_that_cannot_be():
    assert (
        said("flux.1-schnell", "--rate", "nan")
        == "--rate: must be above 0 and at most 1e+06, got nan"
    )


def test_pictures_are_planned_where_and_how_it_is_asked():
    words = ("--region", "us-central1", "--provisioning", "spot", "--accelerator", "tpu-v6e")
    (one,) = printed("flux.1-schnell", *words)
    assert (one["region"], one["provisioning"]) == ("us-central1", "spot")
    assert said("flux.1-schnell", "--accelerator", "nvidia-l4").startswith(
        "--region, --provisioning, --accelerator: must leave"
    )
    assert said("flux.1-schnell", "--write", "dev").startswith("--write: must be omitted")


def test_a_config_json_is_planned_with_its_own_sizes(tmp_path: Path):
    sizes = {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 131072,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    }
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    words = ("--accelerator", "nvidia-l4", "--rows", "1")
    given, named = printed(str(tmp_path), *words), printed("llama-3.1-8b", *words)
    assert given["choices"][0]["accelerator"] == named["choices"][0]["accelerator"]


def test_a_plan_is_shown_with_ranges_and_what_does_not_fit():
    answer = CliRunner().invoke(
        build_app(("plan",)), ["plan", "llama-3.3-70b", "--rows", "2", "--explain"]
    )
    assert answer.exit_code == 0, answer.exception


@pytest.mark.parametrize(
    ("accelerator", "faster"), [("nvidia-h100-80gb", "tcpx"), ("nvidia-h100-mega-80gb", "tcpxo")]
)
def test_a_plan_over_tcp_says_how_to_get_the_faster_network_of_the_machine(
    accelerator: str, faster: str
):
    arguments = ("llama-3.1-405b", "--accelerator", accelerator)
    answer = CliRunner().invoke(build_app(("plan",)), ["plan", *arguments])
    text = " ".join(answer.output.split())
    assert (
        f"2: estimated for network tcp; {faster} is faster, and needs capacity.NAME.node_pools and "
        "regions.NAME.ranges.accelerators in the stack (docs/gpudirect.md)"
    ) in text
    assert text.count(f"{faster} is faster") == 1
    networks = {
        (one["hosts"], one["network"]): one["faster_network"]
        for one in printed(*arguments)["choices"]
    }
    assert networks == {(1, None): None, (2, "tcp"): faster}


def test_words_are_checked_one_by_one():
    assert check_words("--region", None, ["a"]) == ()
    assert check_words("--region", ["b", "a"], ["a", "b"]) == ("b", "a")
    assert check_region("--location", "us-east5") == "us-east5"
    with pytest.raises(CommandError, match="--location: must be a region such as us-east5, got"):
        check_region("--location", "nowhere")
    with pytest.raises(CommandError, match="--rate: must be a number above 0, got nan"):
        check_positive("--rate", float("nan"))


def test_a_message_gets_the_option_in_its_fields_place():
    names = {"given": "--input"}
    assert option_of(InputError("given", "must be 1", 0), names) == "--input: must be 1, got 0"
    assert option_of(InputError("prefix_share", "must be 1")) == "--prefix-share: must be 1"
    both = InputError("input and output", "must be 1")
    assert option_of(both) == "input and output: must be 1"


def test_the_plan_of_a_model_of_images_says_what_no_engine_here_serves():
    few = ("--region", "us-central1", "--rows", "3")
    answer = CliRunner().invoke(build_app(("plan",)), ["plan", "flux.2-klein-4b", *few])
    assert "No engine of this project serves flux.2-klein-4b" in answer.stdout
    answer = CliRunner().invoke(build_app(("plan",)), ["plan", "stable-diffusion-xl", *few])
    assert "No engine of this project" not in answer.stdout


def test_speculation_makes_tokens_faster_and_its_interval_wider():
    few = ("llama-3.3-70b", "--accelerator", "nvidia-h100-80gb", "--region", "us-central1",
           "--bits", "8", "--rows", "40")  # fmt: skip

    def tpot(*more: str) -> dict[str, float]:
        found = printed(*few, *more)["choices"]
        one = next(each for each in found if each["parallelism"] == "TP8")
        return one["tpot_p95_ms"]

    usual, fast = tpot(), tpot("--speculative", "eagle3:3")
    assert fast["value"] < usual["value"] / 1.5
    assert fast["high"] / fast["value"] > usual["high"] / usual["value"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--speculative", "eagle3"), "--speculative: must be METHOD:TOKENS, such as eagle3:3"),
        (("--speculative", "draft:3"), "--speculative: must be one of eagle3, mtp, ngram"),
        (("--speculative", "ngram:99"), "--speculative: must have 1 to 16 tokens, got 99"),
        (
            ("--speculative", "mtp:1"),
            "--speculative: must not be mtp for llama-3.3-70b, which has no MTP layers; "
            "models with them: qwen3.5-397b-a17b, deepseek-v3, got 'mtp:1'",
        ),
        (
            ("--speculative", "eagle3:2", "--accelerator", "tpu-v6e"),
            "--speculative: must be a method of vllm on the hardware to consider, got 'eagle3'",
        ),
        (
            ("--write", "prod", "--name", "Bad_Name"),
            "--name: must be lowercase letters, digits, dots, hyphens and underscores,"
            " got 'Bad_Name'",
        ),
        (
            ("--speculative", "ngram:2", "--write", "prod"),
            "--speculative: must be omitted with --write",
        ),
    ],
)
def test_speculation_that_cannot_be_planned_is_refused(options: tuple[str, ...], message: str):
    assert said("llama-3.3-70b", *options).startswith(message)


def test_speculation_of_a_model_that_decodes_nothing_is_refused():
    assert said("bge-m3", "--speculative", "eagle3:3") == (
        "--speculative: must not be set: nothing is decoded, got it with the embedding model "
        "'bge-m3'"
    )


def table_of(*arguments: str) -> str:
    answer = CliRunner().invoke(build_app(("plan",)), ["plan", *arguments])
    assert answer.exit_code == 0, answer.exception
    return " ".join(answer.stdout.split())


def test_a_plan_of_images_names_the_cheapest_nodes_that_stay_also_below_its_rows():
    few = ("--region", "us-central1", "--rows", "1")
    shown = table_of("flux.1-schnell", *few)
    assert "spot nodes end: the floor is tpu-v6e on-demand in us-central1, 5.40 $/h" in shown
    kept = table_of("flux.1-schnell", *few, "--provisioning", "on-demand")
    assert "the floor is" not in kept


def test_a_plan_of_a_model_of_embeddings_says_that_it_is_of_text():
    few = ("--accelerator", "nvidia-l4", "--region", "us-central1", "--rows", "1")
    said = "qwen3-embedding-0.6b makes embeddings, which this plan does not rank"
    assert said in table_of("qwen3-embedding-0.6b", *few)
    assert "embeddings" not in table_of("qwen3-0.6b", *few)


def test_a_plan_of_two_regions_has_the_floor_of_each_and_what_is_none():
    shown = table_of(
        "llama-3.1-8b", "--bits", "16", "--rate", "3", "--context", "16384", "--rows", "1",
        *("--accelerator", "nvidia-h100-80gb", "--accelerator", "nvidia-rtx-pro-6000"),
        *("--region", "us-central1", "--region", "asia-northeast1"),
    )  # fmt: skip
    floors = "us-central1 nvidia-rtx-pro-6000 x1 4.50, asia-northeast1 none"
    assert f"floors by region, $/h: {floors}" in shown
    assert "no floor: nvidia-h100-80gb x1 " in shown
    assert "$/h; spot nodes end, and it is not sold on demand" in shown
