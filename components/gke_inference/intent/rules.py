"""Rules across the parts of a served model, shared by stacks and `ModelServer`.

Paths are those of `ModelServer`, which are those of a stack except for a few (`infra.rules`).
"""

from collections.abc import Iterator

from gke_inference.catalogue.accelerators import TPU_GENERATIONS
from gke_inference.catalogue.hardware import CPU
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.names import ONE_POD_FORMS
from gke_inference.catalogue.rungs import CLAIMED_PROVISIONING
from gke_inference.intent.batch_rules import batch_problems
from gke_inference.intent.buffer_rules import buffer_problems
from gke_inference.intent.context_rules import context_problems
from gke_inference.intent.diffusion_rules import diffusion_problems
from gke_inference.intent.engine_rules import engine_problems, unable_engine
from gke_inference.intent.expert_rules import expert_problems
from gke_inference.intent.fitting import fit_problems
from gke_inference.intent.host_memory import memory_problems
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.kv_rules import stale_problems
from gke_inference.intent.kv_transport import unfit
from gke_inference.intent.predictive_rules import predictive_problems
from gke_inference.intent.words import Task
from gke_inference.sizing.image_memory import LARGEST_IMAGE_RANK

_WHOLE_BITS = 16
_TASKS_OF_ONE_ENGINE = (Task.IMAGE, Task.VIDEO, Task.PREDICT)


def problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield every rule that a served model violates."""
    form = list(_form(intent))
    yield from form
    yield from _claims(intent)
    yield from _interfaces(intent)
    unable = list(unable_engine(intent)) if intent.task in _TASKS_OF_ONE_ENGINE else []
    engine = unable or list(engine_problems(intent))
    yield from engine
    is_other_task = any(problem.path in ("engine", "task") for problem in engine)
    context = [] if is_other_task else list(context_problems(intent))
    yield from context
    if not engine:
        yield from batch_problems(intent)
    yield from _bits(intent)
    task = [] if is_other_task else [*diffusion_problems(intent), *predictive_problems(intent)]
    yield from task
    role = list(_role(intent)) if not form else []
    yield from role
    experts = list(expert_problems(intent))
    yield from experts
    if not any((engine, context, task, role, experts)):
        fit = list(fit_problems(intent))
        yield from fit or memory_problems(intent)
    yield from _groups(intent)
    yield from _ranks(intent)
    yield from _live_adapters(intent)
    yield from stale_problems(intent)
    yield from buffer_problems(intent)


def _form(intent: ServingIntent) -> Iterator[InputError]:
    is_mixed = len(intent.kinds) > 1
    if is_mixed and CPU in intent.kinds:
        yield from _processors(intent)
        return
    if is_mixed and intent.form == "single":
        rule = "must be paired, dual-container or dra when there are TPU and GPU rungs"
        yield InputError("form", rule, intent.form)
    if not is_mixed and intent.form != "single":
        yield InputError("form", "must be single when all rungs are of one kind", intent.form)


def _processors(intent: ServingIntent) -> Iterator[InputError]:
    """Nodes without an accelerator are what a paired model falls back to."""
    if len(intent.kinds) > 2:
        rule = "must be of two kinds of hardware, got TPU, GPU and CPU: use two capacities"
        yield InputError("rungs", rule)
    elif intent.form != "paired":
        rule = "must be paired when there are rungs with an accelerator and without"
        yield InputError("form", rule, intent.form)
    first = next((at for at, rung in intent.rungs.items() if rung.kind == CPU), "")
    places = list(intent.rungs)
    for at in places[places.index(first) + 1 :]:
        if intent.rungs[at].kind != CPU:
            rule = f"must have the rungs without an accelerator last, but {at} follows {first}"
            yield InputError("rungs", rule)
            return


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
    method, bits = intent.settings.quantization, intent.size.bits
    if method is not None and bits >= _WHOLE_BITS:
        yield InputError("size.bits", f"must be below 16 with quantization {method}", bits)


def _role(intent: ServingIntent) -> Iterator[InputError]:
    if intent.role is None:
        return
    if intent.form != "single":
        rule = f"must not be set when form is '{intent.form}': a KV cache needs one kind of chip"
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
    if intent.adapter_rank is not None and not intent.adapters:
        rule = "must not be set without adapters: live_adapters.max_rank is that of live adapters"
        yield InputError("adapter_rank", rule, intent.adapter_rank)
    ranks = {
        "adapter_rank": intent.rank if intent.adapters else 1,
        "live_adapters.max_rank": 1 if live is None else live.max_rank,
    }
    for path, rank in ranks.items():
        if intent.task.is_diffusion and rank > LARGEST_IMAGE_RANK:
            rule = f"must be at most {LARGEST_IMAGE_RANK} when task is {intent.task}"
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
