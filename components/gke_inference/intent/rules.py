"""Rules between the parts of a served model: the one set for a stack and for `ModelServer`.

Paths are those of `ServingIntent`; whoever asks translates them into the user's own.
"""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.intent.engine_rules import engine_problems
from gke_inference.intent.fitting import fit_problems
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.kv_transport import unfit

PATCH_PIXELS = 16
"""Of a side: eight pixels are a latent and two latents a patch, in Flux."""
_WHOLE_BITS = 16


def problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield every rule that a served model breaks."""
    form = list(_form(intent))
    yield from form
    engine = list(engine_problems(intent))
    yield from engine
    yield from _bits(intent)
    yield from _images(intent)
    role = list(_role(intent)) if not form else []
    yield from role
    if not engine and not role:
        yield from fit_problems(intent)
    yield from _groups(intent)
    yield from _live_adapters(intent)


def _form(intent: ServingIntent) -> Iterator[InputError]:
    is_mixed = len(intent.kinds) > 1
    if is_mixed and intent.form == "single":
        rule = "must be paired or dual-container where there are TPU and GPU rungs"
        yield InputError("form", rule, intent.form)
    if not is_mixed and intent.form != "single":
        yield InputError("form", "must be single where all rungs are of one kind", intent.form)


def _bits(intent: ServingIntent) -> Iterator[InputError]:
    """The size of quantized weights is what they weigh as served, or they seem not to fit."""
    if intent.quantization is not None and intent.weight_bits >= _WHOLE_BITS:
        rule = f"must be below 16 with quantization {intent.quantization}"
        yield InputError("weight_bits", rule, Bare(f"{intent.weight_bits:g}"))


def _images(intent: ServingIntent) -> Iterator[InputError]:
    for at, size in enumerate(intent.image_sizes):
        sides = size.split("x")
        if len(sides) != 2 or not all(side.isdigit() for side in sides):
            yield InputError(f"image_sizes[{at}]", "must be WIDTHxHEIGHT", size)
        elif any(int(side) % PATCH_PIXELS for side in sides):
            rule = f"must be multiples of {PATCH_PIXELS}"
            yield InputError(f"image_sizes[{at}]", rule, Bare(size))


def _role(intent: ServingIntent) -> Iterator[InputError]:
    if intent.role is None:
        return
    if intent.form != "single":
        rule = f"must be left out in form {intent.form!r}: a KV cache has one kind of chip"
        yield InputError("role", rule)
        return
    if intent.task != "generate":
        rule = f"must be left out where task is {intent.task}: there is nothing to decode"
        yield InputError("role", rule)
        return
    for place, rung in intent.rungs.items():
        if (reason := unfit(rung)) is not None:
            yield InputError("role", f"needs rungs that move KV cache; {place}: it {reason}")
            return
    names = list(dict.fromkeys(rung.accelerator for rung in intent.rungs.values()))
    if len(names) > 1:
        yield InputError("role", "needs rungs of one accelerator", Bare(" and ".join(names)))


def _groups(intent: ServingIntent) -> Iterator[InputError]:
    """A replica over several hosts: forms that can be one, and a way to span them."""
    groups = intent.groups
    if groups and intent.form == "dual-container":
        rule = f"must not be dual-container: {next(iter(groups.values()))} spans several hosts"
        yield InputError("form", rule, intent.form)
    if intent.spanning is None:
        return
    if not groups:
        rule = "must be left out: no rung of it spans several hosts"
        yield InputError("spanning", rule, intent.spanning)
    elif intent.spanning == "engine" and "tpu" in groups:
        rule = f"must be ray, as {groups['tpu']} is a TPU slice"
        yield InputError("spanning", rule, intent.spanning)


def _live_adapters(intent: ServingIntent) -> Iterator[InputError]:
    if intent.live_adapters is None:
        return
    if intent.role is not None:
        rule = "must be left out with disaggregated prefill and decode"
        yield InputError("live_adapters", rule)
    if intent.form == "dual-container":
        yield InputError("live_adapters", "must be left out where form is dual-container")
    if intent.groups:
        place = next(iter(intent.groups.values()))
        rule = f"must be left out: {place} spans several hosts, and a loader serves one"
        yield InputError("live_adapters", rule)
