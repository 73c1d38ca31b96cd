"""What an engine or its hardware cannot do, refused before anything is made.

One function for the reader of a stack and for `ModelServer`; the facts are those of
`gke_inference.catalogue.engines`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gke_inference.catalogue.engines import Abilities, EngineFacts, engine
from gke_inference.catalogue.rungs import Rung

_LISTS = ("block_size", "kv_cache_dtype", "quantization", "speculative")


@dataclass(frozen=True)
class Wanted:
    """What a model asks of its engine."""

    engine: str = "vllm"
    task: str = "generate"
    adapters: int = 0
    """How many adapters the stack names."""
    has_live_adapters: bool = False
    is_disaggregated: bool = False
    block_size: int | None = None
    kv_cache_dtype: str | None = None
    max_batch: int | None = None
    prefix_caching: bool = True
    quantization: str | None = None
    speculative: str | None = None
    """How tokens are guessed: `ngram` or `draft`."""
    has_draft: bool = False
    """Whether a draft model is named."""
    tensor_parallel: int | None = None


def wanted_of(args: Mapping[str, Any]) -> Wanted:
    """Returns what the arguments of a `ModelServer` ask of its engine."""
    guess: Mapping[str, Any] = args.get("speculative") or {}
    whole = {
        name: None if args.get(name) is None else int(args[name])
        for name in ("block_size", "max_batch", "tensor_parallel")
    }
    return Wanted(
        adapters=len(args.get("adapters", {})),
        block_size=whole["block_size"],
        engine=args.get("engine", "vllm"),
        has_draft=guess.get("weights") is not None,
        has_live_adapters=args.get("live_adapters") is not None,
        is_disaggregated=args.get("role") is not None,
        kv_cache_dtype=args.get("kv_cache_dtype"),
        max_batch=whole["max_batch"],
        prefix_caching=bool(args.get("prefix_caching", True)),
        quantization=args.get("quantization"),
        speculative=guess.get("method"),
        task=args.get("task", "generate"),
        tensor_parallel=whole["tensor_parallel"],
    )


def refused(wanted: Wanted, rungs: Sequence[Rung]) -> tuple[str, str] | None:
    """Returns the first field that asks for too much and the rule that it breaks, or None.

    The field is that of `ModelServerArgs`; the rule is the rest of a sentence.
    """
    try:
        facts = engine(wanted.engine)
    except ValueError as error:
        return "engine", str(error)
    for rung in rungs:
        able = facts.abilities(rung.kind, rung.accelerator)
        if able is None:
            kinds = " and ".join(sorted(facts.hardware))
            message = f"must run on every rung: {facts.title} has {kinds} only, {rung.label} is one"
            return "engine", f"{message} of them, got {wanted.engine!r}"
        for problem in _problems(wanted, facts, able, rung):
            return problem
    return None


def _problems(
    wanted: Wanted, facts: EngineFacts, able: Abilities, rung: Rung
) -> Iterator[tuple[str, str]]:
    where = f"{facts.title} on {rung.accelerator}"
    if wanted.task not in able.tasks:
        yield "task", f"must be one of {', '.join(able.tasks)} with {where}, got {wanted.task!r}"
    yield from _whole_features(wanted, able, rung, where)
    if not wanted.prefix_caching and not able.prefix_caching:
        yield "prefix_caching", f"must be left out: {where} has no switch for it, got false"
    if wanted.max_batch is not None and not able.max_batch:
        rule = f"must be left out: {where} has it in the weights' own configuration"
        yield "max_batch", f"{rule}, got {wanted.max_batch}"
    for name in _LISTS:
        value, known = getattr(wanted, name), getattr(able, name)
        if value is None or value in known:
            continue
        words = ", ".join(map(str, known))
        rule = f"must be one of {words} with" if known else "must be left out with"
        yield name, f"{rule} {where}, got {value!r}"
    yield from _speculation(wanted)
    if wanted.tensor_parallel is not None:
        yield from _split(wanted.tensor_parallel, able, rung, where)


def _whole_features(
    wanted: Wanted, able: Abilities, rung: Rung, where: str
) -> Iterator[tuple[str, str]]:
    if wanted.adapters and (not able.adapters or wanted.task == "embed"):
        cause = f"{where} serves none" if not able.adapters else "task is embed"
        yield "adapters", f"must be left out where {cause}, got {wanted.adapters}"
    if wanted.has_live_adapters and (not able.live_adapters or wanted.task == "embed"):
        cause = f"{where} loads none" if not able.live_adapters else "task is embed"
        yield "live_adapters", f"must be left out where {cause}"
    if wanted.is_disaggregated and not able.disaggregated:
        yield "role", f"must be left out: {where} is not wired for prefill and decode apart"
    if rung.is_multi_host and not able.multi_host:
        message = f"must be one that spans hosts: {rung.label} has {rung.hosts}"
        yield "engine", f"{message}, got {wanted.engine!r}"


def _speculation(wanted: Wanted) -> Iterator[tuple[str, str]]:
    if wanted.speculative is None:
        return
    if wanted.task != "generate":
        yield "speculative", f"must be left out: nothing is decoded, got it with {wanted.task!r}"
    if wanted.speculative == "draft" and not wanted.has_draft:
        yield "speculative.weights", "must name the draft model with method 'draft', got none"
    if wanted.speculative != "draft" and wanted.has_draft:
        method = wanted.speculative
        yield "speculative.weights", f"must be left out with method {method!r}"


def _split(size: int, able: Abilities, rung: Rung, where: str) -> Iterator[tuple[str, str]]:
    """One copy on a part of the devices: as many copies as fill the replica, on one host."""
    field = "tensor_parallel"
    if rung.devices % size:
        yield field, f"must divide the {rung.devices} devices of {rung.label}, got {size}"
    elif size != rung.devices and not able.data_parallel:
        yield field, f"must be {rung.devices}: {where} holds one copy a replica, got {size}"
    elif size != rung.devices and rung.is_multi_host:
        yield field, f"must be left out where a replica has {rung.hosts} hosts, got {size}"
