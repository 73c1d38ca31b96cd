"""The metrics page: names, types, labels and the text format."""

import json
import re
from typing import Any

import pytest

from planner.speed.roofline import StepLoad
from simulator.engine.core import EngineCore
from simulator.engine.engine import Engine
from simulator.engine.exposition import Metric, label_text
from simulator.engine.metrics import catalogue, token_buckets
from simulator.tests.unit.engine.support import deployment, serve

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
WANTED = {
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:lora_requests_info",
    "vllm:cache_config_info",
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_success_total",
    "vllm:num_preemptions_total",
    "vllm:prefix_cache_hits_total",
}


def page(*flags: str, requests: int = 3) -> str:
    async def use(client: Any, _engine: Engine) -> str:
        for number in range(requests):
            body = {"prompt": f"prompt {number} " + "word " * 40, "max_tokens": 5}
            assert (await client.post("/v1/completions", json=body)).status == 200
        answer = await client.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        return await answer.text()

    return serve(deployment(*flags), use)


def read(text: str) -> dict[str, dict[str, Any]]:
    """Parse the text format strictly: every sample belongs to the family declared before it."""
    families: dict[str, dict[str, Any]] = {}
    current = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in families, f"{current} is declared twice"
            families[current] = {"samples": {}, "labels": set()}
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current
            families[name]["type"] = kind
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            name, labels, value = match.groups()
            suffixes = (
                ("_bucket", "_sum", "_count") if families[current]["type"] == "histogram" else ("",)
            )
            assert name in {current + suffix for suffix in suffixes}, line
            pairs = _LABEL.findall(labels or "")
            families[current]["labels"] |= {key for key, _ in pairs}
            key = (name, tuple(sorted(pairs)))
            assert key not in families[current]["samples"], f"{line} stands there twice"
            families[current]["samples"][key] = float(value)
    return families


def test_every_metric_is_one_of_vllms_with_its_type_and_labels():
    for name, family in read(page()).items():
        real, kind = real_family(name)
        assert family["type"] == kind, name
        if family["samples"]:
            labels = set(real["labels"]) - ({"le"} if name.endswith("_created") else set())
            assert family["labels"] == labels, name


def real_family(name: str) -> tuple[dict[str, Any], str]:
    """Return the catalogue's entry and the type; `_created` dates another family."""
    if not name.endswith("_created"):
        return catalogue()[name], catalogue()[name]["type"]
    base = name.removesuffix("_created")
    real = catalogue().get(base) or catalogue()[base + "_total"]
    return real, "gauge"


def test_every_family_of_the_real_server_is_there():
    assert set(read(page(requests=0))) >= set(catalogue())


def test_what_autoscalers_pickers_and_dashboards_read_is_there():
    assert set(read(page())) >= WANTED


def test_counts_add_up():
    families = read(page(requests=3))
    generated = families["vllm:generation_tokens_total"]["samples"]
    assert list(generated.values()) == [15.0]
    first = families["vllm:time_to_first_token_seconds"]["samples"]
    counts = [value for (name, _), value in first.items() if name.endswith("_count")]
    assert counts == [3.0]
    between = families["vllm:inter_token_latency_seconds"]["samples"]
    assert [v for (name, _), v in between.items() if name.endswith("_count")] == [12.0]


def test_buckets_grow_and_end_with_all():
    samples = read(page())["vllm:e2e_request_latency_seconds"]["samples"]
    buckets = [(dict(labels)["le"], v) for (name, labels), v in samples.items() if "bucket" in name]
    assert [value for _, value in buckets] == sorted(value for _, value in buckets)
    assert buckets[-1] == ("+Inf", 3.0)


def test_a_repeated_prompt_shows_as_prefix_cache_hits():
    async def use(client: Any, _engine: Engine) -> str:
        body = {"prompt": "word " * 100, "max_tokens": 1}
        for _ in range(2):
            await client.post("/v1/completions", json=body)
        return await (await client.get("/metrics")).text()

    hits = read(serve(deployment("--block-size", "16"), use))["vllm:prefix_cache_hits_total"]
    assert list(hits["samples"].values()) == [96.0]


def test_cache_config_tells_the_picker_block_size_and_blocks():
    family = read(page("--block-size", "32", "--num-gpu-blocks-override", "500", requests=0))
    ((_, labels),) = family["vllm:cache_config_info"]["samples"]
    assert dict(labels)["block_size"] == "32"
    assert dict(labels)["num_gpu_blocks"] == "500"


def test_token_buckets_stop_at_the_longest_sequence():
    assert token_buckets(60) == (1, 2, 5, 10, 20, 50)


def test_label_values_are_escaped():
    assert label_text(("a",), ('x"y\\z\n',)) == '{a="x\\"y\\\\z\\n"}'


@pytest.mark.parametrize(("value", "bucket"), [(0.1, 0), (0.5, 0), (0.51, 1), (9, 2)])
def test_a_value_on_a_bound_falls_into_its_bucket(value: float, bucket: int):
    metric = Metric("m", "histogram", "help", (), (0.5, 1.0))
    metric.observe(value)
    lines = [line for line in metric.render().splitlines() if "_bucket" in line]
    assert [float(line.split()[-1]) for line in lines] == [float(i >= bucket) for i in range(3)]


SPECULATIVE = '--speculative-config={"method": "ngram", "num_speculative_tokens": 3}'


def test_drafts_are_counted_as_vllm_counts_them():
    found = {name: values for name, values in read(page(SPECULATIVE)).items() if "spec_" in name}
    assert set(found) == {
        "vllm:spec_decode_num_drafts_total",
        "vllm:spec_decode_num_draft_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    }


@pytest.mark.parametrize(
    "load", [StepLoad(0, 1, 1000, 1000), StepLoad(64, 8, 9064, 72_064, prompt_context=1064)]
)
@pytest.mark.parametrize("method", ["eagle3", "ngram"])
def test_an_engine_with_drafts_does_not_read_faster_than_its_chips(method: str, load: StepLoad):
    config = json.dumps({"method": method, "num_speculative_tokens": 4})
    flags = ("--tensor-parallel-size=4", "--max-model-len=8192", f"--speculative-config={config}")
    core = EngineCore(deployment(*flags, model="llama-3.3-70b", GKE_INFERENCE_SIM_CHIPS="4"))
    core.metrics.step(load, core.cost)
    seconds = core.cost.step_seconds(load)
    chip = core.cost.accelerator
    reads = core.metrics.read_bytes.total() / seconds / (chip.bandwidth_gbps * 1e9)
    computes = core.metrics.flops.total() / seconds / (chip.bf16_tflops * 1e12)
    assert min(reads, computes) > 0
    assert 0.4 < max(reads, computes) <= 1


def test_without_speculation_there_are_no_drafts():
    assert not any("spec_decode" in name for name in read(page()))
