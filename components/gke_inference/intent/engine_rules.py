"""What an engine or its hardware cannot do; the facts are in `gke_inference.catalogue.engines`."""

import json
from collections.abc import Iterator
from typing import cast

from gke_inference.catalogue.engine_flags import flag_problem, variable_problem
from gke_inference.catalogue.engines import Abilities, EngineFacts, engine
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.intent import ServingIntent

_TOOLS, _TOOL_PARSER = "enable-auto-tool-choice", "tool-call-parser"
_MEDIA_LIMIT = "limit-mm-per-prompt"
_LISTS = ("block_size", "kv_cache_dtype", "quantization")


def engine_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield what asks for too much on the first rung where something does."""
    try:
        facts = engine(intent.engine)
    except ValueError as error:
        yield InputError("engine", str(error))
        return
    for name, value in intent.engine_args.items():
        if (problem := flag_problem(facts.name, facts.title, name, value)) is not None:
            yield problem.at(f"engine_args.{name}")
    yield from _together(intent)
    for name, value in intent.engine_env.items():
        if (problem := variable_problem(name, value)) is not None:
            yield problem.at(f"engine_env.{name}")
    for rung in intent.rungs.values():
        able = facts.abilities(rung.kind, rung.accelerator)
        if able is None:
            kinds = " and ".join(sorted(facts.hardware))
            message = f"must run on every rung: {facts.title} has {kinds} only, {rung.label} is one"
            yield InputError("engine", f"{message} of them", intent.engine)
            return
        found = list(_problems(intent, facts, able, rung))
        yield from found
        if found:
            return


def _together(intent: ServingIntent) -> Iterator[InputError]:
    """Tool calls of vLLM: a parser alone is ignored, and calls without one are refused at start."""
    given = intent.engine_args
    if intent.engine != "vllm":
        return
    is_on = given.get(_TOOLS, "false") == "true"
    if _TOOL_PARSER in given and not is_on:
        rule = f"needs '{_TOOLS}: true' beside it: tool calls are off without"
        yield InputError(f"engine_args.{_TOOL_PARSER}", rule, given[_TOOL_PARSER])
    if is_on and _TOOL_PARSER not in given:
        rule = f"needs '{_TOOL_PARSER}' beside it, the parser of the model's family"
        yield InputError(f"engine_args.{_TOOLS}", rule, True)
    limit = given.get(_MEDIA_LIMIT)
    if limit is not None and not _is_media_limit(limit):
        rule = "must be a JSON mapping of media to numbers"
        yield InputError(f"engine_args.{_MEDIA_LIMIT}", rule, limit)


def _is_media_limit(text: str) -> bool:
    try:
        found: object = json.loads(text)
    except ValueError:
        return False
    if not isinstance(found, dict):
        return False
    counts = cast("dict[str, object]", found).values()
    return all(isinstance(count, int | dict) and not isinstance(count, bool) for count in counts)


def _problems(
    intent: ServingIntent, facts: EngineFacts, able: Abilities, rung: Rung
) -> Iterator[InputError]:
    where = f"{facts.title} on {rung.accelerator}"
    if intent.task not in able.tasks:
        yield InputError("task", _words(able.tasks, where), intent.task)
        return
    yield from _features(intent, able, rung, where)
    if not intent.prefix_caching and not able.prefix_caching:
        yield InputError("prefix_caching", f"must be left out: {where} has no switch for it", False)
    if intent.max_batch is not None and not able.max_batch:
        rule = f"must be left out: {where} has it in the weights' own configuration"
        yield InputError("max_batch", rule, intent.max_batch)
    for name in _LISTS:
        value, known = getattr(intent, name), getattr(able, name)
        if value is not None and value not in known:
            yield InputError(name, _words(known, where), value)
    yield from _guessing(intent, able, where)
    if intent.tensor_parallel is not None:
        yield from _split(intent.tensor_parallel, able, rung, where)


def _words(known: tuple[object, ...], where: str) -> str:
    if not known:
        return f"must be left out with {where}"
    return f"must be one of {', '.join(map(str, known))} with {where}"


def _features(
    intent: ServingIntent, able: Abilities, rung: Rung, where: str
) -> Iterator[InputError]:
    is_embedding = intent.task == "embed"
    if intent.adapters and (not able.adapters or is_embedding):
        cause = f"{where} serves none" if not able.adapters else "task is embed"
        yield InputError("adapters", f"must be left out where {cause}", len(intent.adapters))
    if intent.live_adapters is not None and (not able.live_adapters or is_embedding):
        cause = f"{where} loads none" if not able.live_adapters else "task is embed"
        yield InputError("live_adapters", f"must be left out where {cause}")
    if intent.role is not None and not able.disaggregated:
        rule = f"must be left out: {where} is not wired for disaggregated prefill and decode"
        yield InputError("role", rule)
    if rung.is_multi_host and not able.multi_host:
        message = f"must be one that spans hosts: {rung.label} has {rung.hosts}"
        yield InputError("engine", message, intent.engine)


def _guessing(intent: ServingIntent, able: Abilities, where: str) -> Iterator[InputError]:
    guess = intent.speculative
    if guess is None:
        return
    if guess.method not in able.speculative:
        yield InputError("speculative", _words(able.speculative, where), guess.method)
        return
    if intent.task != "generate":
        rule = "must be left out: nothing is decoded"
        yield InputError("speculative", rule, Bare(f"it with {intent.task!r}"))
    if guess.method == "draft" and guess.weights is None:
        rule = "must name the draft model with method 'draft'"
        yield InputError("speculative.weights", rule, None)
    if guess.method != "draft" and guess.weights is not None:
        rule = f"must be left out with method {guess.method!r}"
        yield InputError("speculative.weights", rule, guess.weights)


def _split(size: int, able: Abilities, rung: Rung, where: str) -> Iterator[InputError]:
    """One copy on a part of the devices: as many copies as fill the replica, on one host."""
    field = "tensor_parallel"
    if rung.devices % size:
        yield InputError(field, f"must divide the {rung.devices} devices of {rung.label}", size)
    elif size != rung.devices and not able.data_parallel:
        yield InputError(field, f"must be {rung.devices}: {where} holds one copy a replica", size)
    elif size != rung.devices and rung.is_multi_host:
        yield InputError(field, f"must be left out where a replica has {rung.hosts} hosts", size)
