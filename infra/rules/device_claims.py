"""Rules about models in form `dra`: clusters and pools whose chips pods may claim."""

from collections.abc import Iterator

from gke_inference.catalogue.hardware import CPU
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from infra.plan import CapacityByRegion, prefill_capacity
from infra.stack import ClusterMode, Form, Layer, Model, Platform


def check_claims(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield what is wrong with the models whose pods claim devices.

    Args:
        platform: The stack.
        by_region: Its capacity, resolved.
    """
    claimed: dict[str, str] = {}
    for name, model in platform.models.items():
        if model.form is Form.DRA and model.capacity in platform.capacity:
            claimed.setdefault(model.capacity, join("models", name))
            yield from _check_place(platform, name, model, by_region)
    yield from _check_others(platform, claimed)


def _check_place(
    platform: Platform, name: str, model: Model, by_region: CapacityByRegion
) -> Iterator[InputError]:
    where = join("models", name, "form")
    if platform.layer is not Layer.ALL:
        yield InputError(where, "must be another form when layer is serving", Form.DRA.value)
        return
    for region, settings in platform.regions_of(model).items():
        here = by_region[model.capacity][region]
        kinds = {rung.kind for rung in here.rungs.values()}
        if CPU in kinds:
            return  # rules of the model refuse every form but paired
        if settings.mode is ClusterMode.AUTOPILOT:
            rule = f"must not be dra in {region}: Autopilot has no device claims"
            yield InputError(where, rule, Form.DRA.value)
            return
        if len(kinds) == 1:
            rule = f"must not be dra when a region has TPU or GPU rungs alone, as {region} does"
            yield InputError(where, rule, Form.DRA.value)
            return
    if platform.capacity[model.capacity].node_pools is None:
        rule = f"needs pools made beforehand: set 'capacity.{model.capacity}.node_pools'"
        yield InputError(where, rule, Form.DRA.value)


def _check_others(platform: Platform, claimed: dict[str, str]) -> Iterator[InputError]:
    """On nodes whose chips are claimed, nobody has them by asking for a resource."""
    for name, model in platform.models.items():
        if model.form is Form.DRA:
            continue
        fields = {
            "capacity": model.capacity,
            "disaggregated.prefill.capacity": prefill_capacity(model),
        }
        for field, capacity in fields.items():
            if capacity in claimed:
                rule = f"must be a separate capacity: {claimed[capacity]} claims its devices"
                yield InputError(join("models", name, field), rule, capacity)
                break
