"""Sizes of a step that an engine with a limit of batched tokens accepts together.

vLLM 0.29.0 and 0.32.0: config/scheduler.py, `verify_max_model_len`, and the defaults of
`gke_inference.sizing.default_batch`.
"""

import re
from collections.abc import Iterator

from gke_inference.catalogue.engine_flags import flags
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.intent import ServingIntent
from gke_inference.sizing.architectures import find_model
from gke_inference.sizing.default_batch import default_batch
from gke_inference.sizing.memory import device_gib

TOKENS = "max-num-batched-tokens"
_CHUNKED = "enable-chunked-prefill"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)")
_UNITS = {letter: 1000**power for power, letter in enumerate("kmgt", 1)} | {
    letter: 1024**power for power, letter in enumerate("KMGT", 1)
}
_BATCHED_BACKENDS = ("deepep_low_latency", "nixl_ep")
_BATCHED_TOKENS = 256
"""Default of the all-to-all backends that pad each step."""


def batch_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield sizes of a step that contradict each other on the first rung where they do."""
    if TOKENS not in flags(intent.engine):
        return
    given = _tokens(intent)
    yield from _unchunked(intent, given)
    threshold = intent.settings.flags.get("long-prefill-token-threshold", "0")
    if threshold.isdigit() and int(threshold) > intent.context:
        rule = f"must be at most the context of {intent.context} tokens"
        yield InputError("settings.engine_args.long-prefill-token-threshold", rule, threshold)
    most = intent.settings.max_batch
    if most is None:
        return
    active = intent.settings.flags.get("max-num-active-seqs", "0")
    if active.isdigit() and int(active) > most:
        yield InputError(
            "settings.engine_args.max-num-active-seqs", f"must be at most {most}", active
        )
    if given is not None:
        if given < most:
            rule = f"must be at least {most}, the largest batch"
            yield InputError(f"settings.engine_args.{TOKENS}", rule, given)
        return
    for rung in intent.rungs.values():
        tokens = _default_tokens(intent, rung)
        if tokens is not None and tokens < most:
            note = f"; more needs {TOKENS} in engine_args, at least as large"
            rule = f"must be at most {tokens}, the tokens of a step on {rung.accelerator}"
            yield InputError("settings.max_batch", rule, most, note)
            return


def _tokens(intent: ServingIntent) -> int | None:
    """Return the given tokens of a step: `8k` are 8,000, and `8K` are 8,192."""
    match = _SIZE.fullmatch(intent.settings.flags.get(TOKENS, ""))
    return None if match is None else int(float(match[1]) * _UNITS.get(match[2], 1))


def _unchunked(intent: ServingIntent, given: int | None) -> Iterator[InputError]:
    """A prompt that is not divided must fit into a step."""
    if given is not None and not _is_chunked(intent) and given < intent.context:
        rule = f"must be at least the context of {intent.context} tokens"
        yield InputError(
            f"settings.engine_args.{TOKENS}", rule, given, ": prompts are not divided into chunks"
        )


def _is_chunked(intent: ServingIntent) -> bool:
    known = find_model(intent.weights, intent.served_name)
    # an encoder reads a prompt in both directions, so vLLM does not divide it by default
    default = "false" if known is not None and known.kind == "embedding" else "true"
    return intent.settings.flags.get(_CHUNKED, default) == "true"


def _default_tokens(intent: ServingIntent, rung: Rung) -> int | None:
    """Return vLLM's tokens of a step on a rung; None on TPU, whose plugin may change them."""
    if rung.kind != "gpu":
        return None
    experts = intent.experts
    if experts is not None and experts.backend(intent.role) in _BATCHED_BACKENDS:
        tokens = _BATCHED_TOKENS
    else:
        tokens = default_batch(rung.accelerator, device_gib(rung.accelerator)).tokens
    tokens *= 2 if intent.settings.flags.get("performance-mode") == "throughput" else 1
    return tokens if _is_chunked(intent) else max(tokens, intent.context)
