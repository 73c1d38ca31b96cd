"""Rules about disaggregated models: existing capacity, and one accelerator for both roles."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join, one_of
from gke_inference.intent.kv_transport import unfit
from gke_inference.intent.replicas import range_problems
from infra.plan import CapacityByRegion, prefill_capacity
from infra.stack import Model, Platform


def check_disaggregation(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield the problems of a platform's disaggregated models.

    Args:
        platform: The stack.
        by_region: Resolved capacity, by region.
    """
    for name, model in platform.models.items():
        if model.disaggregated is None or model.capacity not in platform.capacity:
            continue
        where = join("models", name, "disaggregated")
        yield from _check_model(model, where)
        yield from _check_targets(model, join("models", name, "autoscaling"))
        capacity = prefill_capacity(model)
        if capacity not in platform.capacity:
            yield one_of(join(where, "prefill", "capacity"), str(capacity), platform.capacity)
            continue
        yield from _check_accelerator(platform, by_region, model, where)


def _check_model(model: Model, where: str) -> Iterator[InputError]:
    if model.disaggregated is None:
        return
    if model.canary is not None:
        yield InputError(where, "must not be set with 'canary': its second version has no prefill")
    yield from range_problems(
        join(where, "prefill", "replicas"), model.disaggregated.prefill.replicas
    )


def _check_targets(model: Model, where: str) -> Iterator[InputError]:
    if "queue_depth" in model.autoscaling.model_fields_set:
        rule = "must not be set with 'disaggregated': decode replicas follow their KV cache; set"
        rule = f"{rule} disaggregated.prefill.autoscaling.queue_depth for prompts that wait"
        yield InputError(join(where, "queue_depth"), rule, model.autoscaling.queue_depth)


def _check_accelerator(
    platform: Platform, by_region: CapacityByRegion, model: Model, where: str
) -> Iterator[InputError]:
    """Yield differing accelerators of the two roles. check_engines checks each role."""
    for region in platform.regions_of(model):
        accelerators: set[str] = set()
        for capacity in (model.capacity, str(prefill_capacity(model))):
            resolved = by_region[capacity][region]
            if resolved.problems:
                return  # check_capacity reports them
            rungs = resolved.rungs.values()
            here = {rung.accelerator for rung in rungs}
            if len(here) > 1 or any(
                unfit(rung, may_span=model.experts is not None) for rung in rungs
            ):
                return
            accelerators |= here
        if len(accelerators) > 1:
            rule = "needs one accelerator for both roles"
            yield InputError(where, rule, Bare(" and ".join(sorted(accelerators))), f" in {region}")
            return
