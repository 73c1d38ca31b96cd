"""Limits of engines and hardware, based on the facts in `gke_inference.catalogue.engines`."""

from collections.abc import Iterator

from gke_inference.catalogue.engine_flags import (
    flag_problem,
    flags,
    is_secret,
    release_problem,
    variable_problem,
)
from gke_inference.catalogue.engine_registries import PLUGINS, unregistered
from gke_inference.catalogue.engines import Abilities, EngineFacts, engine, engines_for
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.catalogue.versions import engine_version
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.kv_offload import FIELD, offload_problems
from gke_inference.intent.prompts import prompt_problems
from gke_inference.sizing.architectures import find_model
from gke_inference.sizing.shapes import sees

_TOOLS, _TOOL_PARSER = "enable-auto-tool-choice", "tool-call-parser"
_BALANCED, _EXPERTS = "enable-eplb", "enable-expert-parallel"
_CHUNK = "chunked-prefill-size"
_ARGS, _ENV, _SECRETS = (
    "settings.engine_args",
    "settings.engine_env",
    "settings.engine_secrets",
)
_GUESS = "settings.speculative"
_OF_TEXT = ("append", "flag-or-string", "list", "string")
"""Types of flags whose values are text."""
_QUOTES = " (put it in quotes)"
_LISTS = ("block_size", "kv_cache_dtype", "quantization")


def engine_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield unsupported settings, on the first rung that does not support them."""
    facts = engine(intent.engine)
    yield from _fractions(intent)
    for name, value in intent.settings.flags.items():
        if (problem := flag_problem(facts.name, facts.title, name, value)) is not None:
            yield problem.at(f"{_ARGS}.{name}")
    yield from _together(intent)
    yield from _variables(intent)
    for rung in intent.rungs.values():
        able = facts.abilities(rung.kind, rung.accelerator)
        if able is None:
            kinds = " and ".join(sorted(facts.hardware))
            able_on = f"{facts.title} supports only {kinds}, not {rung.label}"
            yield InputError("engine", f"must run on every rung: {able_on}", intent.engine)
            return
        found = [*_registered(intent, facts, rung), *_problems(intent, facts, able, rung)]
        yield from found
        if found:
            return


def unable_engine(intent: ServingIntent) -> Iterator[InputError]:
    """Yield an engine that cannot do the task on any hardware."""
    able = engines_for(intent.task)
    if intent.engine not in able:
        rule = f"must be {' or '.join(able)} when task is {intent.task}"
        yield InputError("engine", rule, intent.engine)


def _fractions(intent: ServingIntent) -> Iterator[InputError]:
    """Yield numbers with a fraction where text belongs: YAML's 1.10 has become 1.1."""
    known = flags(intent.engine)
    for name, value in (intent.settings.engine_args or {}).items():
        flag = known.get(name)
        if isinstance(value, float) and flag is not None and flag.type in _OF_TEXT:
            yield InputError(f"{_ARGS}.{name}", "must be text", value, _QUOTES)
    for name, value in (intent.settings.engine_env or {}).items():
        if isinstance(value, float):
            yield InputError(f"{_ENV}.{name}", "must be text", value, _QUOTES)


def _registered(intent: ServingIntent, facts: EngineFacts, rung: Rung) -> Iterator[InputError]:
    """Yield flags and values that the engine's release for a rung does not have."""
    release = engine_version(f"{facts.name}_{rung.kind}")
    for name, value in intent.settings.flags.items():
        problem = release_problem(facts.name, facts.title, release, name, value)
        if problem is not None:
            rule = f"{problem.rule} on {rung.accelerator}"
            yield InputError(f"{_ARGS}.{name}", rule, problem.value, problem.note)
    if PLUGINS in intent.settings.variables:
        return
    for problem in unregistered(facts.name, facts.title, release, intent.settings.flags):
        yield problem.at(f"{_ARGS}.{problem.path}")


def _variables(intent: ServingIntent) -> Iterator[InputError]:
    """Variables that users may not set, or not in plain text; no message has a secret's value."""
    for name, value in intent.settings.variables.items():
        problem = variable_problem(name, value)
        if is_secret(name):
            rule = "must not be in plain text: name a secret of Secret Manager in engine_secrets"
            yield InputError(f"{_ENV}.{name}", rule if problem is None else problem.rule)
        elif problem is not None:
            yield problem.at(f"{_ENV}.{name}")
    for name, secret in intent.settings.engine_secrets.items():
        where = f"{_SECRETS}.{name}"
        if (problem := variable_problem(name, secret)) is not None:
            yield problem.at(where)
        elif name in intent.settings.variables:
            yield InputError(where, "must not also be in engine_env")


def _together(intent: ServingIntent) -> Iterator[InputError]:
    """Yield flags that are ignored, or fail at startup, without or with another setting."""
    given = intent.settings.flags
    chunk, block = given.get(_CHUNK, ""), intent.settings.block_size
    known = flags(intent.engine)
    if _CHUNK in known and block and chunk.isdigit() and int(chunk) % block:
        rule = f"must be a multiple of block_size, which is {block}"
        yield InputError(f"{_ARGS}.{_CHUNK}", rule, int(chunk))
    is_balanced = given.get(_BALANCED) == "true" and intent.experts is None
    if _EXPERTS in known and is_balanced and given.get(_EXPERTS) != "true":
        rule = f"needs '{_EXPERTS}: true'"
        yield InputError(f"{_ARGS}.{_BALANCED}", rule, True)
    if _TOOLS not in known:
        return
    is_on = given.get(_TOOLS, "false") == "true"
    if _TOOL_PARSER in given and not is_on:
        rule = f"needs '{_TOOLS}: true': tool calls are off without it"
        yield InputError(f"{_ARGS}.{_TOOL_PARSER}", rule, given[_TOOL_PARSER])
    if is_on and _TOOL_PARSER not in given:
        rule = f"needs '{_TOOL_PARSER}', the parser of the model's family"
        yield InputError(f"{_ARGS}.{_TOOLS}", rule, True)


def _problems(
    intent: ServingIntent, facts: EngineFacts, able: Abilities, rung: Rung
) -> Iterator[InputError]:
    where = f"{facts.title} on {rung.accelerator}"
    if intent.task not in able.tasks:
        yield InputError("task", _words(able.tasks, where), intent.task)
        return
    yield from _features(intent, able, rung, where)
    if not intent.settings.prefix_caching and not able.prefix_caching:
        yield InputError(
            "settings.prefix_caching", f"must be true: {where} cannot turn it off", False
        )
    if intent.settings.max_batch is not None and not able.max_batch:
        rule = f"must not be set: {where} reads it from the configuration of the weights"
        yield InputError("settings.max_batch", rule, intent.settings.max_batch)
    for name in _LISTS:
        value, known = getattr(intent.settings, name), getattr(able, name)
        if value is not None and value not in known:
            yield InputError(f"settings.{name}", _words(known, where), value)
    yield from _guessing(intent, able, where)
    yield from prompt_problems(
        intent.settings,
        able,
        where,
        engine=intent.engine,
        sees=sees(intent.weights, intent.served_name),
    )
    yield from _offload(intent, able, rung, where)
    if intent.settings.tensor_parallel is not None and intent.experts is None:
        yield from _split(intent.settings.tensor_parallel, able, rung, where)


def _offload(
    intent: ServingIntent, able: Abilities, rung: Rung, where: str
) -> Iterator[InputError]:
    offload = intent.settings.kv_offload
    if offload is None:
        return
    if not able.kv_offload:
        yield InputError(FIELD, f"is not supported for {where}")
        return
    if intent.role is not None:
        rule = "must not be set with disaggregated prefill and decode: one connector moves blocks"
        yield InputError(FIELD, rule)
    yield from offload_problems(
        offload,
        rung,
        has_experts=intent.experts is not None,
        prefix_caching=intent.settings.prefix_caching,
        split=intent.split,
        task=intent.task,
    )


def _words(known: tuple[object, ...], where: str) -> str:
    if not known:
        return f"must not be set with {where}"
    return f"must be one of {', '.join(map(str, known))} with {where}"


def _features(
    intent: ServingIntent, able: Abilities, rung: Rung, where: str
) -> Iterator[InputError]:
    has_none = intent.task in ("embed", "predict")
    if intent.adapters and (not able.adapters or has_none):
        cause = f"{where} serves none" if not able.adapters else f"task is {intent.task}"
        yield InputError("adapters", f"must not be set when {cause}", len(intent.adapters))
    if intent.live_adapters is not None and (not able.live_adapters or has_none):
        cause = f"{where} loads none" if not able.live_adapters else f"task is {intent.task}"
        yield InputError("live_adapters", f"must not be set when {cause}")
    if intent.role is not None and not able.disaggregated:
        rule = f"must not be set: {where} does not support disaggregated prefill and decode"
        yield InputError("role", rule)
    if rung.is_multi_host and not able.multi_host:
        message = f"must be one that can span hosts: {rung.label} has {rung.hosts}"
        yield InputError("engine", message, intent.engine)


def _guessing(intent: ServingIntent, able: Abilities, where: str) -> Iterator[InputError]:
    guess = intent.settings.speculative
    if guess is None:
        return
    if guess.method not in able.speculative:
        yield InputError(_GUESS, _words(able.speculative, where), guess.method)
        return
    if intent.task != "generate":
        rule = "must not be set: nothing is decoded"
        yield InputError(_GUESS, rule, Bare(f"it with '{intent.task}'"))
    needs_weights = guess.method in ("draft", "eagle3")
    if needs_weights and guess.weights is None:
        what = "draft model" if guess.method == "draft" else "EAGLE-3 head"
        rule = f"must name the {what} with method {guess.method!r}"
        yield InputError(f"{_GUESS}.weights", rule, None)
    if not needs_weights and guess.weights is not None:
        rule = f"must not be set with method {guess.method!r}"
        yield InputError(f"{_GUESS}.weights", rule, guess.weights)
    known = find_model(intent.weights, intent.served_name)
    if guess.method == "mtp" and known is not None and not known.mtp_layers:
        rule = f"must not be mtp: {known.name} has no layers for further tokens"
        yield InputError(f"{_GUESS}.method", rule)


def _split(size: int, able: Abilities, rung: Rung, where: str) -> Iterator[InputError]:
    """A copy on some of the devices: the replica runs as many copies as fit, on one host."""
    field = "settings.tensor_parallel"
    if rung.devices % size:
        yield InputError(field, f"must divide the {rung.devices} devices of {rung.label}", size)
    elif size != rung.devices and not able.data_parallel:
        yield InputError(field, f"must be {rung.devices}: {where} runs one copy per replica", size)
    elif size != rung.devices and rung.is_multi_host:
        yield InputError(field, f"must not be set when a replica has {rung.hosts} hosts", size)
