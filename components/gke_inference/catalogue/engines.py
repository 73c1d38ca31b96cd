"""The engines a model can run in: what they export, and what they can do where.

Everything is read from data/engines.yaml, which carries its sources and its date; nothing else in
this repository repeats those facts. Names are the user's words (`vllm`, `sglang`).
"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.data_file import read_table

_FILE = Path(__file__).parent / "data" / "engines.yaml"
_LISTS = ("block_size", "kv_cache_dtype", "quantization", "speculative", "tasks")


@dataclass(frozen=True)
class Metrics:
    """Names of what an engine exports; a label is written in braces, as the picker takes it."""

    path: str
    queue: str
    """Requests that wait."""
    running: str
    """Requests in the batch."""
    source: str
    scraped: tuple[str, ...]
    """Patterns of what else is stored; names of histograms with their suffixes."""
    kv_cache: str | None = None
    """Use of the KV cache, 0 to 1; `None` where the engine does not say."""
    adapters: str | None = None
    """Adapters of requests; `None` where the engine does not say."""
    cache_info: str | None = None
    """Block size and blocks of the KV cache; `None` where the engine does not say."""
    first_token: str | None = None
    """Histogram of the time to the first token, seconds."""
    output_token: str | None = None
    """Histogram of the time for each further token, seconds."""
    whole_answer: str | None = None
    """Histogram of the time to the end of an answer, seconds."""
    prompt_tokens: str | None = None
    """Counter of tokens read."""
    answer_tokens: str | None = None
    """Counter of tokens written."""

    @property
    def stored(self) -> tuple[str, ...]:
        """Patterns of all that is stored; Managed Prometheus bills every sample."""
        named = (self.cache_info, self.kv_cache, self.adapters, self.queue, self.running)
        names = dict.fromkeys(series(name)[0] for name in named if name is not None)
        return (*names, *self.scraped)


def series(metric: str) -> tuple[str, dict[str, str]]:
    """Returns name and labels of a metric that is written `name{label=value}`."""
    name, _, labels = metric.rstrip("}").partition("{")
    pairs = (pair.partition("=") for pair in labels.split(",") if pair)
    return name, {label: value for label, _, value in pairs}


@dataclass(frozen=True)
class Abilities:
    """What an engine can do on one kind of hardware; lists hold the words that it takes."""

    image: str
    """Image of the lock, by name."""
    adapters: bool
    block_size: tuple[int, ...]
    data_parallel: bool
    """Whether one server can hold the model several times, each on a part of its devices."""
    disaggregated: bool
    kv_cache_dtype: tuple[str, ...]
    live_adapters: bool
    max_batch: bool
    """Whether the batch has a bound of its own to set."""
    multi_host: bool
    prefix_caching: bool
    """Whether prefix caching is this engine's to switch."""
    quantization: tuple[str, ...]
    speculative: tuple[str, ...]
    streamed: bool
    """Whether it reads weights from a bucket by itself."""
    tasks: tuple[str, ...]
    traces: bool
    source: str


@dataclass(frozen=True)
class EngineFacts:
    """One engine."""

    name: str
    title: str
    status: str
    """`maintained`, or `archived` where upstream adds nothing any more."""
    health_path: str
    adapter_name: str
    """How a request names an adapter: `{adapter}`, and `{model}` where its name belongs there."""
    metrics: Metrics
    hardware: dict[str, Abilities]
    """By kind: `tpu`, `gpu`."""
    narrower: dict[str, Abilities]
    """By accelerator, where one can less than its kind."""

    def abilities(self, kind: str, accelerator: str) -> Abilities | None:
        """Returns what the engine can do on an accelerator; `None` where it does not run there.

        Args:
            kind: `tpu` or `gpu`.
            accelerator: the user's word for it, such as `tpu-v5e`.
        """
        return self.narrower.get(accelerator, self.hardware.get(kind))


def engine(name: str) -> EngineFacts:
    """Returns one engine by the user's word for it, such as `vllm`.

    Raises:
        ValueError: There is none of that name, or it is retired; the message says why.
    """
    entries = _engines()
    if name in entries:
        return entries[name]
    if name in retired():
        raise ValueError(f"must be one of {', '.join(entries)}, got {name!r}: {retired()[name]}")
    raise ValueError(f"must be one of {', '.join(entries)}, got {name!r}")


def engine_names() -> tuple[str, ...]:
    """Returns every name `engine` knows, in the table's order."""
    return tuple(_engines())


def retired() -> dict[str, str]:
    """Returns the words that are refused, each with the reason."""
    return {name: str(entry["reason"]) for name, entry in _document()["retired"].items()}


def date() -> str:
    """Returns the day on which the table was compared with its sources."""
    return str(_document()["date"])


@cache
def _document() -> dict[str, Any]:
    return read_table(_FILE)


@cache
def _engines() -> dict[str, EngineFacts]:
    return {name: _facts(name, entry) for name, entry in _document()["engines"].items()}


def _facts(name: str, entry: dict[str, Any]) -> EngineFacts:
    hardware: dict[str, Abilities] = {}
    narrower: dict[str, Abilities] = {}
    for kind, fields in entry["hardware"].items():
        own = {key: value for key, value in fields.items() if key != "narrower"}
        hardware[kind] = Abilities(**_tuples(own))
        for accelerator, less in fields.get("narrower", {}).items():
            narrower[accelerator] = replace(hardware[kind], **_tuples(less))
    return EngineFacts(
        adapter_name=entry.get("adapter_name", "{adapter}"),
        hardware=hardware,
        health_path=entry["health_path"],
        metrics=_metrics(entry["metrics"]),
        name=name,
        narrower=narrower,
        status=entry["status"],
        title=entry["title"],
    )


def _metrics(entry: dict[str, Any]) -> Metrics:
    return replace(Metrics(**entry), scraped=tuple(entry["scraped"]))


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if key in _LISTS else value for key, value in fields.items()}
