"""Rules across the parts of a served model, shared by stacks and `ModelServer`.

Paths are those of `ServingIntent`; callers translate them into the user's field names.
"""

from collections.abc import Iterator
from itertools import pairwise

from gke_inference.catalogue.accelerators import TPU_GENERATIONS
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.names import ONE_POD_FORMS
from gke_inference.catalogue.rungs import CLAIMED_PROVISIONING
from gke_inference.intent.batch_rules import batch_problems
from gke_inference.intent.buffer_rules import buffer_problems
from gke_inference.intent.context_rules import context_problems
from gke_inference.intent.engine_rules import engine_problems
from gke_inference.intent.expert_rules import expert_problems
from gke_inference.intent.fitting import fit_problems
from gke_inference.intent.host_memory import memory_problems
from gke_inference.intent.image_models import model_problems
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.kv_rules import stale_problems
from gke_inference.intent.kv_transport import unfit

PATCH_PIXELS = 16
"""Size granularity in pixels: in FLUX.1 and Wan, eight pixels are a latent and two latents a
patch."""
FRAMES_PER_LATENT = 4
"""Frames that the decoder of Wan 2.1 makes of each latent frame but the first, which is one frame
(`scale_factor_temporal` of diffusers' AutoencoderKLWan)."""
LARGEST_IMAGE_RANK = 128
"""Largest adapter rank that the image server compiles a program for."""
_MOST_STEPS = 100
_WHOLE_BITS = 16


def problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield every rule that a served model violates."""
    form = list(_form(intent))
    yield from form
    yield from _claims(intent)
    yield from _interfaces(intent)
    engine = list(engine_problems(intent))
    yield from engine
    yield from context_problems(intent)
    if not engine:
        yield from batch_problems(intent)
    yield from _bits(intent)
    yield from _sizes(intent)
    yield from _videos(intent)
    yield from _schedule(intent)
    yield from _further_images(intent)
    role = list(_role(intent)) if not form else []
    yield from role
    experts = list(expert_problems(intent))
    yield from experts
    if not engine and not role and not experts:
        yield from fit_problems(intent)
        yield from memory_problems(intent)
    yield from _groups(intent)
    yield from _ranks(intent)
    yield from _live_adapters(intent)
    yield from stale_problems(intent)
    yield from buffer_problems(intent)


def _form(intent: ServingIntent) -> Iterator[InputError]:
    is_mixed = len(intent.kinds) > 1
    if is_mixed and intent.form == "single":
        rule = "must be paired, dual-container or dra when there are TPU and GPU rungs"
        yield InputError("form", rule, intent.form)
    if not is_mixed and intent.form != "single":
        yield InputError("form", "must be single when all rungs are of one kind", intent.form)


def _interfaces(intent: ServingIntent) -> Iterator[InputError]:
    """A pod for either kind of hardware has no use for RDMA: each replica has one node."""
    if intent.form not in ONE_POD_FORMS:
        return
    for place, rung in intent.rungs.items():
        if rung.network not in (None, "tcp"):
            rule = f"must be another form, or the network of {place} must be unset or 'tcp'"
            yield InputError("form", rule, intent.form)
            return


def _claims(intent: ServingIntent) -> Iterator[InputError]:
    """Only devices that a driver publishes, on nodes that are known to work, can be claimed."""
    if intent.form != "dra":
        return
    for place, rung in intent.rungs.items():
        if rung.kind == "tpu" and rung.accelerator not in TPU_GENERATIONS:
            known = ", ".join(sorted(TPU_GENERATIONS))
            rule = f"must not be dra: the TPU driver has {known}; {place} is {rung.accelerator}"
            yield InputError("form", rule, intent.form)
        if rung.provisioning not in CLAIMED_PROVISIONING:
            known = ", ".join(CLAIMED_PROVISIONING)
            rule = f"must not be dra: claims need {known}; {place} is {rung.provisioning}"
            yield InputError("form", rule, intent.form)


def _bits(intent: ServingIntent) -> Iterator[InputError]:
    """The size of quantized weights must be their size as served, or they would seem not to fit."""
    if intent.quantization is not None and intent.weight_bits >= _WHOLE_BITS:
        rule = f"must be below 16 with quantization {intent.quantization}"
        yield InputError("weight_bits", rule, Bare(f"{intent.weight_bits:g}"))


def _sizes(intent: ServingIntent) -> Iterator[InputError]:
    for at, size in enumerate(intent.image_sizes):
        sides = size.split("x")
        if len(sides) != 2 or not all(side.isdigit() for side in sides):
            yield InputError(f"image_sizes[{at}]", "must be WIDTHxHEIGHT", size)
        elif any(int(side) % PATCH_PIXELS for side in sides):
            rule = f"must be multiples of {PATCH_PIXELS}"
            yield InputError(f"image_sizes[{at}]", rule, Bare(size))


def _videos(intent: ServingIntent) -> Iterator[InputError]:
    if intent.task != "video":
        if intent.video_frames:
            frames = Bare(", ".join(map(str, intent.video_frames)))
            yield InputError("video_frames", f"must not be set when task is {intent.task}", frames)
        return
    for at, frames in enumerate(intent.video_frames):
        if frames < 1 or frames % FRAMES_PER_LATENT != 1:
            rule = f"must be a multiple of {FRAMES_PER_LATENT} plus 1, such as 81"
            yield InputError(f"video_frames[{at}]", rule, frames)
    if intent.max_batch not in (None, 1):
        rule = "must be 1 when task is video: a chip generates one video at a time"
        yield InputError("max_batch", rule, intent.max_batch)
    for name in ("image_sigmas", "image_step_cache"):
        if value := getattr(intent, name):
            yield InputError(name, "must not be set when task is video", value)


def _further_images(intent: ServingIntent) -> Iterator[InputError]:
    yield from model_problems(
        intent.image_models, intent.task, intent.weights, has_disk=intent.weights_claim is not None
    )
    for name, model in intent.image_models.items():
        where = f"image_models.{name}"
        yield from _steps(model.sigmas, model.steps, f"{where}.sigmas", f"{where}.steps")


def _schedule(intent: ServingIntent) -> Iterator[InputError]:
    """A fixed schedule, and a cache between steps: never both."""
    sigmas, cache = intent.image_sigmas, intent.image_step_cache
    if cache is not None and not 0 < cache < 1:
        yield InputError("image_step_cache", "must be above 0 and below 1", Bare(f"{cache:g}"))
    yield from _steps(sigmas, intent.image_steps, "image_sigmas", "image_steps")
    if sigmas and cache is not None:
        rule = "must not be set when sigmas are given: a distilled schedule has no steps to skip"
        yield InputError("image_step_cache", rule, Bare(f"{cache:g}"))


def _steps(
    sigmas: tuple[float, ...], steps: int | None, of_sigmas: str, of_steps: str
) -> Iterator[InputError]:
    """Yield why a model cannot have a fixed schedule, with the paths of both fields."""
    if not sigmas:
        return
    falls = all(first > second for first, second in pairwise((*sigmas, 0.0)))
    if len(sigmas) > _MOST_STEPS or not falls or sigmas[0] > 1:
        rule = f"must be up to {_MOST_STEPS} strictly decreasing numbers in (0, 1]"
        yield InputError(of_sigmas, rule, Bare(", ".join(f"{sigma:g}" for sigma in sigmas)))
    if steps is not None:
        rule = "must not be set when sigmas are given: each is one step"
        yield InputError(of_steps, rule, Bare(str(steps)))


def _role(intent: ServingIntent) -> Iterator[InputError]:
    if intent.role is None:
        return
    if intent.form != "single":
        rule = f"must not be set when form is {intent.form!r}: a KV cache needs one kind of chip"
        yield InputError("role", rule)
        return
    if intent.task != "generate":
        rule = f"must not be set when task is {intent.task}: there is nothing to decode"
        yield InputError("role", rule)
        return
    for place, rung in intent.rungs.items():
        if (reason := unfit(rung, may_span=intent.experts is not None)) is not None:
            yield InputError("role", f"needs rungs that move KV cache; {place}: it {reason}")
            return
    names = list(dict.fromkeys(rung.accelerator for rung in intent.rungs.values()))
    if len(names) > 1:
        yield InputError("role", "needs rungs of one accelerator", Bare(" and ".join(names)))


def _groups(intent: ServingIntent) -> Iterator[InputError]:
    """A replica over several hosts needs a form that supports it, and a way to span them."""
    groups = intent.groups
    if groups and intent.form in ONE_POD_FORMS:
        rule = f"must not be {intent.form}: {next(iter(groups.values()))} spans several hosts"
        yield InputError("form", rule, intent.form)
    if intent.spanning is None:
        return
    if not groups:
        rule = "must not be set: none of its rungs spans several hosts"
        yield InputError("spanning", rule, intent.spanning)
    elif intent.spanning != "ray" and "tpu" in groups:
        rule = f"must be ray, as {groups['tpu']} is a TPU slice"
        yield InputError("spanning", rule, intent.spanning)
    elif intent.spanning == "kuberay" and (reason := _unfit_for_kuberay(intent)) is not None:
        yield InputError("spanning", f"must be engine or ray when {reason}", intent.spanning)


def _unfit_for_kuberay(intent: ServingIntent) -> str | None:
    """Returns why a model cannot be served by Ray clusters of KubeRay; None: it can."""
    if intent.form != "single":
        return f"form is {intent.form}: a disruption budget of Ray clusters covers nothing else"
    if intent.role is not None:
        return "prefill and decode are disaggregated"
    return None


def _ranks(intent: ServingIntent) -> Iterator[InputError]:
    live = intent.live_adapters
    ranks = {
        "adapter_rank": intent.adapter_rank if intent.adapters else 1,
        "live_adapters.max_rank": 1 if live is None else live.max_rank,
    }
    for path, rank in ranks.items():
        if intent.task == "image" and rank > LARGEST_IMAGE_RANK:
            rule = f"must be at most {LARGEST_IMAGE_RANK} when task is image"
            yield InputError(path, rule, rank)


def _live_adapters(intent: ServingIntent) -> Iterator[InputError]:
    if intent.live_adapters is None:
        return
    if intent.role is not None:
        rule = "must not be set with disaggregated prefill and decode"
        yield InputError("live_adapters", rule)
    if intent.form in ONE_POD_FORMS:
        yield InputError("live_adapters", f"must not be set when form is {intent.form}")
    if intent.groups:
        place = next(iter(intent.groups.values()))
        rule = f"must not be set: {place} spans several hosts, but a loader serves only one"
        yield InputError("live_adapters", rule)
