"""Context of a model: that it has one, within what its published configuration allows.

vLLM 0.32.0 (config/model.py, `_get_and_verify_max_len`) and SGLang 0.5.21
(srt/configs/model_config.py, `_derive_context_length`) end at start otherwise.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gke_inference.catalogue.input_error import InputError
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.settings import NO_CONTEXT
from gke_inference.intent.words import Task
from gke_inference.sizing.architectures import longest_context


@dataclass(frozen=True)
class _Longer:
    """What lets an engine exceed the configuration of the weights."""

    flags: tuple[str, ...]
    """Flags that change the configuration, the one to suggest first."""
    variable: str
    """Variable that turns the check off."""


_LONGER = {
    "sglang": _Longer(("json-model-override-args",), "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"),
    "vllm": _Longer(("hf-overrides", "hf-config-path"), "VLLM_ALLOW_LONG_MAX_MODEL_LEN"),
}


def context_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield a context that is missing, or beyond that of a known model.

    Settings can extend the positions of a model.
    """
    if intent.task is Task.PREDICT:
        return
    if intent.context == NO_CONTEXT:
        yield InputError("context", f"is required when task is {intent.task}")
        return
    way, known = _LONGER.get(intent.engine), longest_context(intent.weights, intent.served_name)
    if way is None or known is None or intent.context <= known[1]:
        return
    if way.variable in intent.settings.variables or any(
        flag in intent.settings.flags for flag in way.flags
    ):
        return
    name, most = known
    note = f"; longer needs {way.flags[0]} in engine_args, with the scaling of its positions"
    yield InputError("context", f"must be at most {most} for {name}", intent.context, note)
