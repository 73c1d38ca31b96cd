"""inference-perf, the load generator of another project, beside the laboratory's own.

Kubernetes' SIGs write it (https://github.com/kubernetes-sigs/inference-perf). It has an environment
of its own, because it needs Python 3.12 and other versions of what the platform uses:
`inference-perf.lock.txt` is the one place that says which.
"""

import json
import os
import random
import shutil
import string
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from simulator.laboratory.workloads import StageSpec
from twin.toolchain import cache_root

LOCK = Path(__file__).with_name("inference-perf.lock.txt")
_PYTHONS = ("python3.12", "python3.13")
"""What inference-perf 0.7.0 runs with (its `requires-python`)."""
_PARTS = 2**20
_VOCABULARY = 4096
_TAIL = 1500


class LoadToolError(Exception):
    """The load generator cannot be had or failed; the message says why."""


@dataclass(frozen=True)
class ToolFigures:
    """What the tool reports of a stage, as it reports it."""

    sent: int
    failed: int
    throughput_tok_s: float
    """Output tokens a second, from the first request to the last answer."""
    ttft_ms: dict[str, float]
    """p50 and p99."""
    delay_p99_ms: float
    """By how much requests left later than they were due."""
    achieved_qps: float


def version() -> str:
    """Return the locked version.

    Raises:
        LoadToolError: the lock does not name it.
    """
    for line in LOCK.read_text().splitlines():
        name, _, number = line.partition("==")
        if name == "inference-perf":
            return number
    raise LoadToolError(f"{LOCK.name} does not lock inference-perf")


def install() -> Path:
    """Return the tool's program; it is installed where it is not yet.

    Raises:
        LoadToolError: there is no Python that it runs with, or a package cannot be had.
    """
    folder = cache_root().parent / "load" / f"inference-perf-{version()}"
    program, done = folder / "bin" / "inference-perf", folder / ".complete"
    if done.exists() and done.read_text() == LOCK.read_text():
        return program
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _uv("venv", "--quiet", f"--python={_python()}", str(folder))
    _uv("pip", "install", "--quiet", f"--python={folder}/bin/python", f"--requirements={LOCK}")
    done.write_text(LOCK.read_text())
    return program


def _python() -> str:
    """Return a Python that the tool runs with: on PATH, of pyenv, or a version for uv to fetch."""
    found = [path for name in _PYTHONS if (path := shutil.which(name))]
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found += [str(p) for name in _PYTHONS for p in sorted(root.glob(f"versions/*/bin/{name}"))]
    for path in found:  # pyenv's shims are on PATH for versions that are not chosen, too
        if not subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode:
            return path
    return _PYTHONS[0].removeprefix("python")


def _uv(*arguments: str) -> None:
    command = [sys.executable, "-m", "uv", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise LoadToolError(f"uv {arguments[0]}: {answer.stderr[-_TAIL:].strip()}")


def shares(adapters: Sequence[str], skew: float) -> dict[str, float]:
    """Return the popularity of adapters, as `simulator.traffic.multi_adapter` draws it.

    The tool compares the sum with 1.0 bit by bit, so shares are whole parts of 2**20.
    """
    weights = [1 / (rank + 1) ** skew for rank in range(len(adapters))]
    parts = [round(weight / sum(weights) * _PARTS) for weight in weights]
    parts[0] += _PARTS - sum(parts)
    return {name: part / _PARTS for name, part in zip(adapters, parts, strict=True)}


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer in Hugging Face's form that counts as the simulated engine's does.

    Its words have three letters, so the space and the word are one token for both.
    """
    choose = random.Random("tokenizer")  # noqa: S311  # words, not secrets
    words = [a + b + c for a in string.ascii_lowercase for b in string.ascii_lowercase
             for c in string.ascii_lowercase]  # fmt: skip
    vocabulary = {word: n for n, word in enumerate(choose.sample(words, _VOCABULARY))}
    vocabulary["<unk>"] = _VOCABULARY
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
    special = {"id": _VOCABULARY, "content": "<unk>", "single_word": False, "lstrip": False,
               "rstrip": False, "normalized": False, "special": True}  # fmt: skip
    content = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [special],
        "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
        "decoder": None, "model": model,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def configuration(
    url: str, folder: Path, stages: Sequence[StageSpec], split: dict[str, float], *,
    model: str, prompt_tokens: int, output_tokens: int,
) -> dict[str, Any]:  # fmt: skip
    """Return the tool's configuration for Poisson arrivals of prompts that share nothing.

    Args:
        url: of the gateway.
        folder: of tokenizer and reports.
        stages: rates and durations, in order.
        split: share of each adapter.
        model: name of the base model.
        prompt_tokens: of each prompt.
        output_tokens: of each answer.
    """
    count = 2 * round(sum(stage.rate * stage.seconds for stage in stages))

    def fixed(tokens: int) -> dict[str, Any]:
        return {"type": "fixed", "min": tokens, "max": tokens, "mean": tokens, "std_dev": 0,
                "total_count": count}  # fmt: skip

    return {
        "api": {"type": "completion", "streaming": True},
        "data": {"type": "random", "input_distribution": fixed(prompt_tokens),
                 "output_distribution": fixed(output_tokens)},
        "load": {
            "type": "poisson", "interval": 1.0, "num_workers": 1, "base_seed": 1,
            # open loop: whoever waits for answers must not keep others from being sent
            "worker_max_concurrency": count,
            "stages": [{"rate": s.rate, "duration": round(s.seconds)} for s in stages],
            "lora_traffic_split": [{"name": name, "split": x} for name, x in split.items()],
        },
        "server": {"type": "vllm", "base_url": url, "model_name": model, "ignore_eos": True},
        "tokenizer": {"pretrained_model_name_or_path": str(folder / "tokenizer")},
        "report": {"request_lifecycle": {"per_request": False, "use_server_output_tokens": True}},
        "storage": {"local_storage": {"path": str(folder / "reports")}},
    }  # fmt: skip


def run(program: Path, configured: dict[str, Any], folder: Path, seconds: float) -> None:
    """Run the tool; its reports are under `folder`/reports.

    Raises:
        LoadToolError: it failed or took longer than `seconds`.
    """
    file, log = folder / "config.yml", folder / "inference-perf.log"
    file.write_text(yaml.safe_dump(configured, sort_keys=False))
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYENV_VERSION": ""}
    with log.open("w") as stream:
        try:
            answer = subprocess.run(
                [str(program), "--config_file", str(file)], cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, timeout=seconds,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise LoadToolError(f"inference-perf did not end in {seconds:g} s") from error
    if answer.returncode:
        raise LoadToolError(f"inference-perf: {log.read_text()[-_TAIL:]}")


def figures(folder: Path, stage: int) -> ToolFigures:
    """Read the tool's report of a stage.

    Raises:
        LoadToolError: there is none, or it lacks a figure.
    """
    name = f"stage_{stage}_lifecycle_metrics.json"
    file = next((folder / "reports").rglob(name), None)
    if file is None:
        raise LoadToolError(f"inference-perf wrote no {name}")
    return parse(json.loads(file.read_text()))


def parse(report: dict[str, Any]) -> ToolFigures:
    """Return the figures of a report of the tool; its times are in seconds.

    Raises:
        LoadToolError: the report lacks a figure.
    """
    try:
        load, good = report["load_summary"], report["successes"]
        ttft = good["latency"]["time_to_first_token"]
        return ToolFigures(
            sent=load["count"],
            failed=report["failures"]["count"],
            throughput_tok_s=round(good["throughput"]["output_tokens_per_sec"], 1),
            ttft_ms={"p50": round(1000 * ttft["median"], 1), "p99": round(1000 * ttft["p99"], 1)},
            delay_p99_ms=round(1000 * load["schedule_delay"]["p99"], 1),
            achieved_qps=round(load["achieved_rate"], 2),
        )
    except (KeyError, TypeError) as error:
        raise LoadToolError(f"the report of inference-perf lacks {error}") from error
