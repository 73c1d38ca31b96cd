"""inference-perf, an external load generator, as an alternative to the laboratory's own.

It is a Kubernetes SIGs project (https://github.com/kubernetes-sigs/inference-perf). It has its own
environment, because it needs Python 3.12 and other versions of the platform's packages, which
`inference-perf.lock.txt` lists.
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

from simulator.replays.workloads import StageSpec
from twin.toolchain import cache_root

LOCK = Path(__file__).with_name("inference-perf.lock.txt")
_PYTHONS = ("python3.12", "python3.13")
"""Python versions of inference-perf 0.7.0 (its `requires-python`)."""
_PARTS = 2**20
_VOCABULARY = 4096
_TAIL = 1500


class LoadToolError(Exception):
    """The load generator is not available or failed; the message gives the reason."""


@dataclass(frozen=True)
class ToolFigures:
    """The tool's report of a stage."""

    sent: int
    failed: int
    throughput_tok_s: float
    """Output tokens per second, from the first request to the last response."""
    ttft_ms: dict[str, float]
    """p50 and p99."""
    delay_p99_ms: float
    """Delay of requests after their due time."""
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
    """Return the tool's program, after installing it if needed.

    Raises:
        LoadToolError: no suitable Python exists, or a package is not available.
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
    """Return a Python for the tool: on PATH, from pyenv, or a version for uv to download."""
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
    """Return the popularity of adapters, as in `simulator.traffic.multi_adapter`.

    The tool compares the sum with 1.0 exactly, so shares are multiples of 2**-20.
    """
    weights = [1 / (rank + 1) ** skew for rank in range(len(adapters))]
    parts = [round(weight / sum(weights) * _PARTS) for weight in weights]
    parts[0] += _PARTS - sum(parts)
    return {name: part / _PARTS for name, part in zip(adapters, parts, strict=True)}


def write_tokenizer(folder: Path) -> None:
    """Write a Hugging Face tokenizer that counts tokens like the simulated engine's.

    Its words have three letters, so a space and a word are one token for both.
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
    """Return the tool's configuration for Poisson arrivals of unrelated prompts.

    Args:
        url: URL of the gateway.
        folder: folder of tokenizer and reports.
        stages: rates and durations, in order.
        split: share of each adapter.
        model: name of the base model.
        prompt_tokens: tokens of each prompt.
        output_tokens: tokens of each response.
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
            # open loop: waiting for responses must not delay other requests
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
        LoadToolError: the tool failed or took longer than `seconds`.
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
        LoadToolError: the report does not exist, or a figure is missing.
    """
    name = f"stage_{stage}_lifecycle_metrics.json"
    file = next((folder / "reports").rglob(name), None)
    if file is None:
        raise LoadToolError(f"inference-perf wrote no {name}")
    return parse(json.loads(file.read_text()))


def parse(report: dict[str, Any]) -> ToolFigures:
    """Return the figures of a report of the tool; its times are in seconds.

    Raises:
        LoadToolError: a figure is missing in the report.
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
