"""Engines that a model can run in: their metrics, and their features by hardware.

All data comes from data/engines/NAME, with its sources; data/engines.yaml lists the names, which
are those of stacks. No other file in this repository repeats it: a module asks the record for what
an engine has, and does not compare its name.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

from gke_inference.catalogue.data_file import read_table
from gke_inference.catalogue.engine_tables import FOLDER, tables
from gke_inference.settings import OneOf

_LISTS = ("block_size", "kv_cache_dtype", "quantization", "speculative", "tasks")


@dataclass(frozen=True)
class Metrics:
    """Names of an engine's metrics. Labels are in braces, as the picker expects."""

    path: str
    queue: str
    """Waiting requests."""
    source: str
    scraped: tuple[str, ...]
    """Patterns of other stored metrics; histograms with their suffixes."""
    port: int | None = None
    """Port of the metrics, or `None` for that of the API."""
    running: str | None = None
    """Running requests, or `None` if the engine has no such metric."""
    kv_cache: str | None = None
    """KV cache utilization, 0 to 1, or `None` if the engine has no such metric."""
    adapters: str | None = None
    """Adapters of requests, or `None` if the engine has no such metric."""
    cache_info: str | None = None
    """Block size and number of KV cache blocks, or `None` if the engine has no such metric."""
    first_token: str | None = None
    """Histogram of the time to first token, in seconds."""
    output_token: str | None = None
    """Histogram of the time per output token, in seconds."""
    whole_answer: str | None = None
    """Histogram of the total time of an answer, in seconds."""
    prompt_tokens: str | None = None
    """Counter of prompt tokens."""
    answer_tokens: str | None = None
    """Counter of answer tokens."""
    answered: str | None = None
    """Counter of answered requests."""
    between_tokens: str | None = None
    """Histogram of the times between two tokens of an answer, in seconds, or `None` if the engine
    has no such metric: its speed cannot be compared."""
    cached_tokens: str | None = None
    """Counter of prompt tokens that were in the cache."""
    queue_time: str | None = None
    """Histogram of the time in the queue, in seconds; not stored."""
    tiers: tuple[str, ...] = ()
    """Patterns of metrics that are stored for models with KV cache tiers only."""
    model_queue: str | None = None
    """Waiting requests by model (label `model_name`), or `None` if all models of a server share
    one queue."""
    by_model: tuple[str, ...] = ()
    """Patterns of metrics that are stored, with `model_queue`, only for servers whose models have
    devices of their own."""

    @property
    def busy(self) -> tuple[str, ...]:
        """Gauges of open requests, of which each replica has all."""
        return (self.queue,) if self.running is None else (self.queue, self.running)

    def stored(self, *, has_tiers: bool = False, has_own_chips: bool = False) -> tuple[str, ...]:
        """Return the patterns of all stored metrics. Managed Prometheus bills every sample.

        Args:
            has_tiers: whether the model has KV cache tiers.
            has_own_chips: whether several models of a server have devices of their own.
        """
        named = [self.cache_info, self.kv_cache, self.adapters, self.queue, self.running]
        named += [self.model_queue] if has_own_chips else []
        names = dict.fromkeys(series(name)[0] for name in named if name is not None)
        more = (*(self.tiers if has_tiers else ()), *(self.by_model if has_own_chips else ()))
        return (*names, *self.scraped, *more)


def series(metric: str) -> tuple[str, dict[str, str]]:
    """Return name and labels of a metric in the form `name{label=value}`."""
    name, _, labels = metric.rstrip("}").partition("{")
    pairs = (pair.partition("=") for pair in labels.split(",") if pair)
    return name, {label: value for label, _, value in pairs}


@dataclass(frozen=True)
class Abilities:
    """Features of an engine on one kind of hardware. Lists contain allowed values."""

    image: str
    """Name of its image in the lock."""
    adapters: bool
    block_size: tuple[int, ...]
    chat_template: bool
    """Whether it can use another chat template than that of the weights."""
    data_parallel: bool
    """Whether one server can run several copies of the model, each on some of its devices."""
    disaggregated: bool
    fetches_any_media: bool
    """Whether it fetches media from every address that a request names, and nothing limits it."""
    kv_cache_dtype: tuple[str, ...]
    kv_offload: bool
    """Whether it can keep KV cache outside the accelerator's memory."""
    live_adapters: bool
    max_batch: bool
    """Whether the maximum batch size can be set."""
    multi_host: bool
    multimodal: bool
    """Whether it has limits of media in a prompt, and of the hosts that it fetches them from."""
    prefix_caching: bool
    """Whether prefix caching can be turned on or off."""
    quantization: tuple[str, ...]
    speculative: tuple[str, ...]
    streamed: bool
    """Whether it streams weights from a bucket."""
    tasks: tuple[str, ...]
    traces: bool
    source: str
    archived_cache: bool = False
    """Whether one server compiles programs that its launcher archives for later starts."""
    cache_variable: str | None = None
    """Variable with the folder of compiled programs, which is a mounted bucket; None for none."""
    experts: bool = False
    """Whether it can spread the experts of a mixture over all devices."""


@dataclass(frozen=True)
class LongerContext:
    """What lets an engine exceed the context in the configuration of the weights."""

    flags: tuple[str, ...]
    """Flags that change the configuration, the one to suggest first."""
    variable: str
    """Variable that turns the check off."""


@dataclass(frozen=True)
class EngineFacts:
    """Facts about one engine."""

    name: str
    title: str
    status: str
    """`maintained`, or `archived` if upstream development has ended."""
    health_path: str
    adapter_name: str
    """Pattern of adapter names in requests: `{adapter}`, and `{model}` if the name contains it."""
    responses: bool
    """Whether it answers `/v1/responses` here."""
    cache_salt: tuple[str, ...]
    """Paths on which it takes `cache_salt`: requests with different salts share no prefix."""
    metrics: Metrics
    hardware: dict[str, Abilities]
    """Features by hardware kind: `tpu`, `gpu`."""
    narrower: dict[str, Abilities]
    """Features by accelerator, where one supports less than its kind."""
    adapter_api: bool = False
    """Whether it loads adapters through endpoints under `/v1`, from any folder that a request
    names. A loader beside it calls them; clients must not reach them."""
    batches: bool = False
    """Whether jobs of the batch service can start servers of it."""
    fallbacks: bool = False
    """Whether a fallback can compare the queues of its replicas."""
    from_zero: bool = False
    """Whether the relay in a pool can start its first replica, and send it the requests."""
    longer_context: LongerContext | None = None
    """How it exceeds the context of the weights, or None if it does not check it."""
    measured_as: str = "tensorrt"
    """Engine in published measurements from which its speed is estimated."""
    split_flags: tuple[str, ...] = ()
    """Flag for tensor parallelism, and where it has one, the flag for copies of the model; empty if
    the weights determine the parallelism."""

    def abilities(self, kind: str, accelerator: str) -> Abilities | None:
        """Return the engine's features on an accelerator, or `None` if it is not supported.

        Args:
            kind: `tpu` or `gpu`.
            accelerator: the user's word for it, such as `tpu-v5e`.
        """
        return self.narrower.get(accelerator, self.hardware.get(kind))

    def any_has(self, feature: str) -> bool:
        """Return whether the engine has a feature of `Abilities` on any hardware."""
        return any(getattr(able, feature) for able in self.hardware.values())


def engine(name: str) -> EngineFacts:
    """Return one engine by its name in stacks, such as `vllm`.

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
    """Return all engine names, in table order."""
    return tuple(_document()["engines"])


def engines_where(test: Callable[[EngineFacts], bool]) -> tuple[EngineFacts, ...]:
    """Return the engines for which a test is true, in table order."""
    return tuple(facts for facts in _engines().values() if test(facts))


def engines_for(task: str) -> tuple[str, ...]:
    """Return the names of the engines that can do a task, such as `generate`, in table order."""
    found = engines_where(lambda facts: any(task in able.tasks for able in facts.hardware.values()))
    return tuple(facts.name for facts in found)


def retired() -> dict[str, str]:
    """Return the names that are rejected, each with the reason."""
    return {name: str(entry["reason"]) for name, entry in _document()["retired"].items()}


def date() -> str:
    """Return the date of the last comparison of the table with its sources."""
    return str(_document()["date"])


@cache
def _document() -> dict[str, Any]:
    return read_table(FOLDER.with_suffix(".yaml"))


@cache
def _engines() -> dict[str, EngineFacts]:
    return {name: _facts(name, tables("engine.yaml")[name]) for name in engine_names()}


def _facts(name: str, entry: dict[str, Any]) -> EngineFacts:
    hardware: dict[str, Abilities] = {}
    narrower: dict[str, Abilities] = {}
    for kind, fields in entry["hardware"].items():
        own = {key: value for key, value in fields.items() if key != "narrower"}
        hardware[kind] = Abilities(**_tuples(own))
        for accelerator, less in fields.get("narrower", {}).items():
            narrower[accelerator] = replace(hardware[kind], **_tuples(less))
    longer = entry.get("longer_context")
    return EngineFacts(
        adapter_api=entry.get("adapter_api", False),
        adapter_name=entry.get("adapter_name", "{adapter}"),
        batches=entry.get("batches", False),
        cache_salt=tuple(entry["cache_salt"]),
        fallbacks=entry.get("fallbacks", False),
        from_zero=entry.get("from_zero", False),
        hardware=hardware,
        health_path=entry["health_path"],
        longer_context=longer and LongerContext(tuple(longer["flags"]), longer["variable"]),
        measured_as=entry.get("measured_as", EngineFacts.measured_as),
        metrics=_metrics(entry["metrics"]),
        name=name,
        narrower=narrower,
        responses=entry.get("responses", False),
        split_flags=tuple(entry.get("split_flags", ())),
        status=entry["status"],
        title=entry["title"],
    )


def _metrics(entry: dict[str, Any]) -> Metrics:
    found = Metrics(**entry)
    return replace(
        found,
        by_model=tuple(found.by_model),
        scraped=tuple(found.scraped),
        tiers=tuple(found.tiers),
    )


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if key in _LISTS else value for key, value in fields.items()}


def _in_any(field: str) -> tuple[str, ...]:
    """Return the words that any engine supports on any hardware."""
    able = [each for facts in _engines().values() for each in facts.hardware.values()]
    return tuple(sorted({word for each in able for word in getattr(each, field)}))


EngineName = Annotated[str, OneOf(engine_names())]
"""Name of an engine of the catalogue."""
QuantizationName = Annotated[str, OneOf(_in_any("quantization"))]
"""Quantization method of weights that an engine supports."""
CacheDtype = Annotated[str, OneOf(_in_any("kv_cache_dtype"))]
"""Data type of the KV cache that an engine supports."""
SpeculativeMethod = Annotated[str, OneOf(_in_any("speculative"))]
"""Source of speculative tokens that an engine supports."""
DEFAULT_ENGINE = engine_names()[0]
"""Engine of a model that names none."""
