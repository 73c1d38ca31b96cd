"""Programs in containers accept every number that a stack accepts.

A program that refuses its settings at the start takes down what it serves. It may accept more than
a stack, never less.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gke_inference.pipelines.settings import WINDOW_FEATURES
from infra.reading.load import platform_of
from infra.stack.clients import ClientTeam
from infra.stack.engines import EngineSettings
from infra.stack.guardrails import Guardrail
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.stack_bounds import End, at_bounds, range_of
from tests.shipped_stacks import EXAMPLES
from twin.toolchain import tool
from workloads.batch.settings import read_settings as read_batches
from workloads.diffusion import __main__ as diffusion
from workloads.diffusion import config as image_settings
from workloads.diffusion import training
from workloads.engine import diffusion as image_server
from workloads.engine import spec
from workloads.optimization.settings import read_evaluate, read_quantize, read_tune
from workloads.personal.settings import FrontSettings, WorkSettings
from workloads.personal.settings import read as read_personal
from workloads.pipelines import settings as pipelines
from workloads.stream.settings import read_settings as read_stream

ENDS = ("least", "most")
REACHED = {
    "backends": {"relay", "callout", "launcher"},
    "batch-engines": {"batches", "launcher"},
    "clients": {"callout", "launcher"},
    "front-router": {"callout", "launcher", "relay"},
    "guardrails": {"callout", "launcher"},
    "kv-offload": {"launcher"},
    "optimization": {"evaluate", "launcher", "quantize", "tune"},
    "personalized-images": {"front", "images", "launcher", "training", "worker"},
    "images": {"images", "launcher"},
    "pipelines": {"launcher", "pipeline"},
    "streaming": {"launcher", "stream"},
    "video": {"images", "launcher"},
}
"""Programs whose settings an example has."""
OWNERS = {
    "batch": "batches",
    "evaluate": "evaluate",
    "personal": "worker",
    "quantize": "quantize",
    "stream": "stream",
    "tune": "tune",
}
"""Program of a file of settings, by a word in the name of its ConfigMap."""
MUST_BE = {
    "backends": {"backends.gemini-flash.timeout_seconds"},
    "batch-engines": {"batches.deadline_seconds", "batches.workers.requests"},
    "clients": {"clients.cache.threshold", "clients.teams.assistant.monthly_usd"},
    "front-router": {"guardrails.front.timeout_ms"},
    "guardrails": {
        "clients.teams.assistant.monthly_usd",
        "guardrails.house.timeout_ms",
        "guardrails.personal-data.timeout_ms",
    },
    "optimization": {
        "optimization.evaluations.sql.concurrency",
        "optimization.evaluations.sql.limit",
        "optimization.evaluations.sql.tolerance",
        "optimization.quantizations.qwen3-4b-w8a8.samples",
        "optimization.quantizations.qwen3-4b-w8a8.tokens",
        "optimization.tunings.sql.learning_rate",
    },
    "personalized-images": {"personal_images.max_open_sets", "personal_images.train_seconds"},
    "pipelines": {"pipelines.payments.retries", "pipelines.payments.window_seconds"},
    "streaming": {"streams.summaries.attempts"},
}
"""Settings that no rule between settings may keep from the ends of their ranges."""


def settings_in(value: Any) -> Iterator[str]:
    """Yield the values of the variable SETTINGS of containers."""
    if isinstance(value, dict):
        if value.get("name") == "SETTINGS":
            yield value["value"]
        for each in value.values():
            yield from settings_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from settings_in(each)


def documents(registrations: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield the program and the content of each file of settings."""
    for seen in registrations:
        if seen.type == "gcp:cloudrunv2/service:Service":
            for text in settings_in(seen.inputs):
                yield "front", text
        if seen.type.endswith(":FlexTemplateJob"):
            yield "pipeline", seen.inputs["parameters"]["settings"]
        if not seen.type.endswith(":ConfigMap"):
            continue
        data: Mapping[str, str] = seen.inputs.get("data") or {}
        for name, text in data.items():
            match name:
                case "callout.yaml" | "relay.yaml":
                    yield name.removesuffix(".yaml"), text
                case "spec.json":
                    yield "launcher", text
                case "settings.json":
                    yield next(of for word, of in OWNERS.items() if word in seen.name), text
                case _:
                    pass


def read_spec(text: str) -> Iterator[tuple[str, str]]:
    """Start a launcher with a spec, and yield the flags of its image server."""
    for serving in spec.read(text).serving.values():
        if serving.engine == "diffusion":
            yield "images", json.dumps(image_server.arguments(serving))


def read_work(text: str) -> Iterator[tuple[str, str]]:
    """Start a worker of personalized images, and yield the settings of its training."""
    found = read_personal(WorkSettings, text)
    places = {"adapter": "/mnt/shared/a", "images": "/mnt/images", "work": "/mnt/shared/work"}
    yield "training", json.dumps({**found.training, **places})


def started(tmp_path: Path) -> Callable[[str, str], list[tuple[str, str]]]:
    """Return what a Python program does with its settings at the start."""

    def in_a_file(read: Callable[[Path], Any], text: str) -> None:
        file = tmp_path / "settings.json"
        file.write_text(text)
        read(file)

    def start(program: str, text: str) -> list[tuple[str, str]]:
        match program:
            case "batches":
                in_a_file(read_batches, text)
            case "evaluate":
                read_evaluate(text)
            case "front":
                read_personal(FrontSettings, text)
            case "images":
                flags = diffusion.parser().parse_args(["serve", *json.loads(text)])
                image_settings.from_dict(diffusion.settings_of(flags))
            case "launcher":
                return [*read_spec(text)]
            case "pipeline":
                pipelines.Settings.of(text)
            case "quantize":
                read_quantize(text)
            case "stream":
                in_a_file(read_stream, text)
            case "training":
                in_a_file(training.read, text)
            case "tune":
                read_tune(text)
            case "worker":
                return [*read_work(text)]
            case _:
                pass
        return []

    return start


def rendered(deployed: Deployed, example: str, end: End) -> list[tuple[str, str]]:
    """Return the settings of every program of an example with its numbers at one end."""
    (file,) = (EXAMPLES / example).glob("Pulumi.*.yaml")
    platform, reached = at_bounds(platform_of(file), end)
    assert MUST_BE.get(example, set()) <= reached
    return [*documents(deployed(platform).registrations)]


def without_authorities(text: str) -> str:
    """Return settings without the certificates of stores, which only the cloud has."""
    found = json.loads(text)
    for part in (found, found.get("cache", {})):
        part.get("store", {}).pop("ca", None)
    return json.dumps(found)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("example", sorted(REACHED))
def test_programs_start_with_every_number_at_an_end_of_its_range(
    deployed: Deployed, tmp_path: Path, example: str, end: End
) -> None:
    start, left, seen = started(tmp_path), rendered(deployed, example, end), set[str]()
    while left:
        program, text = left.pop()
        left += start(program, text)
        seen.add(program)
    assert seen == REACHED[example]


@pytest.mark.needs_tools
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("example", ["backends", "clients", "front-router", "guardrails"])
def test_programs_in_go_start_with_every_number_at_an_end_of_its_range(
    deployed: Deployed, tmp_path: Path, example: str, end: End
) -> None:
    for program, text in rendered(deployed, example, end):
        if program not in ("callout", "relay"):
            continue
        file = tmp_path / program
        file.write_text(without_authorities(text))
        argv = [str(tool(program)), f"--check-config={file}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", ["block_size", "max_batch", "tensor_parallel"])
def test_a_launcher_reads_numbers_that_no_example_has_the_hardware_for(name: str, end: str) -> None:
    found = range_of(EngineSettings.model_fields[name])
    assert found is not None
    numbers: dict[str, Any] = {"tensor_parallel": 1, name: int(found[ENDS.index(end)])}
    serving = spec.Serving("gpu", "chat", "/models/chat", context_tokens=8192, **numbers)
    written = spec.Spec("chat", {"gpu": serving})
    assert spec.read(written.text()) == written


def test_a_pipeline_computes_the_features_that_a_stack_can_name() -> None:
    assert pipelines.WINDOW_FEATURES == WINDOW_FEATURES


def test_the_ends_of_a_range_are_what_a_stack_still_accepts() -> None:
    assert range_of(ClientTeam.model_fields["monthly_usd"]) == (0.01, 1e9)
    assert range_of(Guardrail.model_fields["timeout_ms"]) == (10, 10_000)
    assert range_of(ClientTeam.model_fields["models"]) is None
