"""Rules about the endpoint pickers: what needs which line, and what fits on a system node."""

from collections.abc import Iterator

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.pickers import GIE, LLM_D_ROUTER
from gke_inference.catalogue.problems import join
from gke_inference.catalogue.quotas import vcpus_of
from gke_inference.gateway.llm_d_config import PREDICTION
from gke_inference.sizing.pickers import (
    USUAL_PICKER,
    PeakLoad,
    memory_gib_of,
    most_requests_per_second,
)
from infra.plan import CapacityByRegion
from infra.plan.system_nodes import system_nodes
from infra.stack import Form, Gateway, Model, Platform, Task


def check_pickers(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield the problems of a platform's pickers.

    Args:
        platform: The stack.
        by_region: Resolved capacity, by region.
    """
    yield from _check_gateway(platform.gateway)
    yield from _check_move(platform)
    for name, model in platform.models.items():
        where = join("models", name)
        if model.task is not Task.GENERATE:
            yield from _check_without_picker(model, where)
            continue
        yield from _check_routing(platform, model, join(where, "routing"), by_region)
        yield from _check_size(platform, model, where)


def _needs_line(line: str) -> str:
    return f"needs gateway.picker {LLM_D_ROUTER!r}, which is {line!r}"


def _check_gateway(gateway: Gateway) -> Iterator[InputError]:
    if gateway.picker == GIE and gateway.picker_drain_seconds is not None:
        where = "gateway.picker_drain_seconds"
        yield InputError(where, _needs_line(gateway.picker), gateway.picker_drain_seconds)


def _check_move(platform: Platform) -> Iterator[InputError]:
    """Yield what contradicts two pickers for each model: one share of the requests at a time."""
    following = platform.gateway.next_picker
    if following is None:
        return
    where = "gateway.next_picker"
    if platform.gateway.has_fleet_gateway:
        rule = "must not be set with front internal: each region exports one pool of a model"
        yield InputError(where, rule, following.line)
    for name, model in platform.models.items():
        if model.canary is not None:
            path = join("models", name, "canary")
            yield InputError(path, f"must not be set with {where}: one share at a time")
        if model.live_adapters is not None and model.fallback is not None:
            path = join("models", name, "fallback")
            yield InputError(path, f"must not be set with {where} and live_adapters")


def _check_without_picker(model: Model, where: str) -> Iterator[InputError]:
    for field, value in (("peak", model.peak), ("routing", model.routing)):
        if value is not None:
            rule = f"must not be set when task is {model.task}: such a model has no picker"
            yield InputError(join(where, field), rule)


def _check_routing(
    platform: Platform, model: Model, where: str, by_region: CapacityByRegion
) -> Iterator[InputError]:
    routing, line = model.routing, platform.gateway.picker
    if routing is None:
        return
    if line == GIE:
        yield InputError(where, _needs_line(line))
        return
    if not routing.predicted_latency:
        return
    at = join(where, "predicted_latency")
    if model.disaggregated is not None:
        yield InputError(at, "must be false with 'disaggregated': one model predicts a pool", True)
    if model.adapters or model.live_adapters is not None:
        rule = "must be false with adapters: its profile has no scorer for them"
        yield InputError(at, rule, True)
    if engine(model.engine).metrics.kv_cache is None:
        rule = "needs an engine with a metric of KV cache use"
        yield InputError(at, rule, model.engine, f" is {model.engine!r}")
    if platform.form_of(model) is Form.PAIRED or _is_mixed(platform, model, by_region):
        rule = (
            "must be false on different hardware: what it learns from one accelerator does not"
            " hold for another; give the model a capacity whose rungs have one accelerator"
        )
        yield InputError(at, rule, True)


def _is_mixed(platform: Platform, model: Model, by_region: CapacityByRegion) -> bool:
    if model.capacity not in platform.capacity:
        return False
    for region in platform.regions_of(model):
        rungs = by_region[model.capacity][region].rungs.values()
        if len({(rung.accelerator, rung.machine_type, rung.topology) for rung in rungs}) > 1:
            return True
    return False


def _check_size(platform: Platform, model: Model, where: str) -> Iterator[InputError]:
    peak, predicts = model.peak, model.predicts_latency
    if peak is None and not predicts:
        return
    wanted = USUAL_PICKER
    if peak is not None:
        wanted = PeakLoad(
            peak.requests_per_second, peak.prompt_tokens, peak.answer_tokens, model.replicas.max
        ).picker()
    if predicts:
        wanted = wanted.plus(PREDICTION.millicores, PREDICTION.memory_mib)
    for name, region in platform.regions_of(model).items():
        nodes = system_nodes(region)
        if nodes is None:
            continue
        vcpus = vcpus_of(nodes.machine_type)
        if wanted.fits(vcpus, memory_gib_of(nodes.machine_type, vcpus)):
            continue
        needs = f"{wanted.millicores / 1000:g} vCPU and {wanted.memory_mib / 1024:g} GiB"
        advice = "choose a larger regions.REGION.system_pool.machine_type"
        if peak is not None:
            most = most_requests_per_second(peak.prompt_tokens, peak.answer_tokens, vcpus)
            advice += f", or divide the model: at most {most:.3g} requests/s of this kind fit"
        path = join(where, "peak" if peak is not None else "routing.predicted_latency")
        rule = (
            f"must fit on a system node of {name} ({nodes.machine_type}): its picker needs {needs},"
            f" and only one picker of a model is active; {advice}"
        )
        yield InputError(path, rule)
        return
