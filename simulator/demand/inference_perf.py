"""Specifications of inference-perf: stages of load, and distributions of lengths."""

import math
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import Document
from gke_inference.catalogue.user_yaml import user_file
from simulator.demand.lines import check_size
from simulator.demand.pattern import (
    MOST_BYTES,
    MOST_TOKENS,
    Kind,
    SystemPrompts,
    percentiles_of,
    table,
)
from simulator.demand.rows import Names
from simulator.demand.streams import Curve, Stream, Streamed, block_of

_SAMPLES = 65_536
_Count = Annotated[int, Field(ge=0, le=MOST_TOKENS)]


class _Part(BaseModel):
    """A part of the specification; fields that do not describe traffic are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Distribution(_Part):
    min: _Count = 10
    max: _Count = 1024
    mean: Annotated[float, Field(gt=0, le=MOST_TOKENS)] = 512
    std_dev: Annotated[float, Field(ge=0, le=MOST_TOKENS)] = 200
    variance: Annotated[float, Field(ge=0)] | None = None
    skew: float = 0.0
    type: Literal["normal", "skew_normal", "lognormal", "uniform", "poisson", "fixed"] = "normal"


def _distribution(value: Any) -> Any:
    return {"type": "fixed", "mean": max(value, 1)} if isinstance(value, int) else value


_Lengths = Annotated[_Distribution, BeforeValidator(_distribution)]


class _SharedPrefix(_Part):
    num_unique_system_prompts: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    num_groups: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    system_prompt_len: _Count = 100
    question_len: _Lengths = _Distribution(type="fixed", mean=50)
    output_len: _Lengths = _Distribution(type="fixed", mean=50)
    question_distribution: _Distribution | None = None
    output_distribution: _Distribution | None = None
    enable_multi_turn_chat: Literal[False] = False


class _Data(_Part):
    type: Literal["synthetic", "random", "shared_prefix"]
    input_distribution: _Distribution | None = None
    output_distribution: _Distribution | None = None
    shared_prefix: _SharedPrefix | None = None


class _Stage(_Part):
    rate: Annotated[float, Field(gt=0, le=1_000_000)]
    duration: Annotated[int, Field(gt=0, le=31_622_400)]


class _Adapter(_Part):
    name: str
    split: Annotated[float, Field(gt=0, le=1)]


class _Load(_Part):
    type: Literal["constant", "poisson"] = "constant"
    interval: Annotated[float, Field(ge=0, le=86_400)] = 1.0
    stages: Annotated[tuple[_Stage, ...], Field(min_length=1, max_length=1000)]
    lora_traffic_split: tuple[_Adapter, ...] = ()
    base_seed: Annotated[int, Field(ge=0)] = 0


class _Server(_Part):
    model_name: str = ""


class _Specification(_Part):
    load: _Load
    data: _Data
    server: _Server = _Server()


_DOCUMENT = Document(_Specification.model_json_schema)


def is_specification(document: object) -> bool:
    """Return whether a YAML document has the parts of a specification."""
    return (
        isinstance(document, dict) and {"load", "data"} <= cast("dict[str, Any]", document).keys()
    )


def read_specification(path: Path, names: Names) -> Streamed:
    """Return the traffic of a specification.

    Fields (github.com/kubernetes-sigs/inference-perf, inference_perf/config, August 2026):
    `load.stages` with `rate` and `duration`, `interval` between them, `lora_traffic_split`;
    `data.input_distribution` and `output_distribution`, or `data.shared_prefix`. Load of the types
    `constant` and `poisson` both have exponential gaps (loadgen/load_timer.py). A closed loop
    (`concurrent`) has no arrivals of its own and is refused, as are data sets.

    Raises:
        InputError: The file is no specification, or one whose requests depend on answers or data.
    """
    check_size(path, MOST_BYTES)
    document = user_file(path)
    try:
        specification = _Specification.model_validate(document)
    except ValidationError as error:
        problem = _DOCUMENT.problems_of(error, ())[0]
        raise problem.at(f"{path}: {problem.path}") from None
    load = specification.load
    kind = _kind(path, specification.data)
    split = [(each.name, each.split) for each in load.lora_traffic_split]
    split = split or [(specification.server.model_name, 1.0)]
    models = tuple(names.of(name, f"{path}: server.model_name") for name, _ in split)
    curve = _curve(load)
    prompts = None if kind.prompt_tokens is None else table(kind.prompt_tokens)
    outputs = table(kind.output_tokens)

    def make() -> list[Stream]:
        return [
            Stream(
                number, load.base_seed, number, -1, kind,
                Curve(curve.seconds, curve.requests * share), block_of(len(split)), None,
                prompts, outputs, None, None,
            )
            for number, (_, share) in enumerate(split)
        ]  # fmt: skip

    return Streamed(models, float(curve.seconds[-1]), make)


def _curve(load: _Load) -> Curve:
    seconds, requests = [0.0], [0.0]
    for number, stage in enumerate(load.stages):
        if number and load.interval:
            seconds.append(seconds[-1] + load.interval)
            requests.append(requests[-1])
        seconds.append(seconds[-1] + stage.duration)
        requests.append(requests[-1] + stage.rate * stage.duration)
    return Curve(np.array(seconds), np.array(requests))


def _kind(path: Path, data: _Data) -> Kind:
    if data.type == "shared_prefix":
        shared = data.shared_prefix or _SharedPrefix()
        groups = shared.num_unique_system_prompts or shared.num_groups
        question = shared.question_distribution or shared.question_len
        output = shared.output_distribution or shared.output_len
        prompts = None
        if shared.system_prompt_len:
            prompts = SystemPrompts(groups=groups, tokens=shared.system_prompt_len)
        return Kind(
            share=1, prompt_tokens=_lengths(question), output_tokens=_lengths(output),
            system_prompts=prompts,
        )  # fmt: skip
    for name in ("input_distribution", "output_distribution"):
        if getattr(data, name) is None:
            raise InputError(f"{path}: data.{name}", f"is required for data of type {data.type}")
    return Kind(
        share=1,
        prompt_tokens=_lengths(data.input_distribution or _Distribution()),
        output_tokens=_lengths(data.output_distribution or _Distribution()),
    )


def _lengths(given: _Distribution) -> Any:
    """Return lengths as inference-perf draws them (utils/numeric/distribution/utils.py)."""
    drawn, counts = np.unique(np.maximum(_drawn(given), 1), return_counts=True)
    return percentiles_of(drawn, counts)


def _drawn(given: _Distribution) -> NDArray[np.int64]:
    random = np.random.default_rng(0)
    spread = given.std_dev if given.variance is None else math.sqrt(given.variance)
    if given.type == "fixed":
        return np.array([int(given.mean)])
    if given.type == "uniform":
        values = random.uniform(given.min, given.max + 1, _SAMPLES)
    elif given.type == "poisson":
        values = random.poisson(given.mean, _SAMPLES).astype(float)
    elif given.type == "lognormal" and spread > 0:
        squared = math.log(1 + (spread / given.mean) ** 2)
        mean = math.log(given.mean) - squared / 2
        values = random.lognormal(mean, math.sqrt(squared), _SAMPLES)
    elif given.type == "skew_normal":
        part = given.skew / math.sqrt(1 + given.skew**2)
        first, second = random.standard_normal((2, _SAMPLES))
        skewed = part * first + math.sqrt(1 - part**2) * second
        values: NDArray[np.float64] = given.mean + spread * np.where(first >= 0, skewed, -skewed)
    else:
        values = random.normal(given.mean, spread, _SAMPLES)
    return np.rint(np.clip(values, given.min, given.max)).astype(np.int64)
