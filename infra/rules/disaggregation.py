"""Rules about models whose prompts are computed apart: hardware that can, and one kind of it."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.serving.disaggregation import unfit as moves_no_kv
from infra.cost.fitting import unfit
from infra.plan import CapacityByRegion, prefill_capacity
from infra.stack import Form, Model, Platform, Task
from infra.stack.problems import join, one_of


def check_disaggregation(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield what is wrong with the disaggregated models of a platform.

    Args:
        platform: The stack.
        by_region: Its capacity, resolved.
    """
    for name, model in platform.models.items():
        if model.disaggregated is None or model.capacity not in platform.capacity:
            continue
        where = join("models", name, "disaggregated")
        found = list(_check_model(platform, model, where))
        yield from found
        capacity = prefill_capacity(model)
        if capacity not in platform.capacity:
            yield one_of(join(where, "prefill", "capacity"), str(capacity), platform.capacity)
            continue
        if not found:
            yield from _check_rungs(platform, by_region, name, model)


def _check_model(platform: Platform, model: Model, where: str) -> Iterator[InputError]:
    if model.disaggregated is None:
        return
    if model.task is not Task.GENERATE:
        message = "must be left out where task is embed: there is nothing to decode"
        yield InputError(where, message, Bare(f"it with {model.task.value!r}"))
    if platform.form_of(model) is not Form.SINGLE:
        form = platform.form_of(model).value
        yield InputError(
            where, f"must be left out in form {form!r}: a KV cache has one kind of chip"
        )
    if model.canary is not None:
        yield InputError(where, "must be left out with 'canary': its second version has no prefill")
    replicas = model.disaggregated.prefill.replicas
    if replicas.min > replicas.max:
        at = join(where, "prefill", "replicas", "min")
        yield InputError(at, f"must be at most max ({replicas.max})", replicas.min)


def _check_rungs(
    platform: Platform, by_region: CapacityByRegion, name: str, model: Model
) -> Iterator[InputError]:
    where = join("models", name, "disaggregated")
    for region in platform.regions_of(model):
        found: dict[str, Rung] = {}
        for capacity in (model.capacity, str(prefill_capacity(model))):
            here = by_region[capacity][region]
            if here.problems:
                return  # check_capacity reports them
            for at, rung in here.rungs.items():
                place = join("capacity", capacity, "rungs", at)
                reason = moves_no_kv(rung) or unfit(name, model, rung)
                if reason is not None:
                    yield InputError(where, f"needs rungs that move KV cache; {place}: it {reason}")
                    return
                found.setdefault(rung.accelerator, rung)
        if len(found) > 1:
            names = " and ".join(found)
            yield InputError(
                where, "needs one accelerator for both roles", Bare(names), f" in {region}"
            )
            return
