"""The options of a sweep: values of settings, for groups of models that share capacity."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from infra.plan import Plan, resolve
from infra.reading.load import parse
from infra.stack import Form, Front, Model
from infra.stack.capacity import Capacity
from infra.stack.problems import StackError
from scripts.rehearse.bounds import Bounds, CapacityBounds, ModelBounds, Order

Path = tuple[str, ...]
"""Fields that lead to a setting of a stack."""
_REPLICAS = ("min", "max", "standby", "scale_in_delay_seconds")
_TARGETS = ("queue_depth", "kv_cache_percent", "running_requests")


@dataclass(frozen=True)
class Setting:
    """A setting with another value than the stack's."""

    path: Path
    value: int | tuple[str, ...] | tuple[int, ...]
    """For rungs, the indices of the present ones in their new order."""
    text: str
    """The change, such as `models.chat.replicas.min 2 → 1`."""


@dataclass(frozen=True)
class Option:
    """Settings that are tried together; none is the stack as it is."""

    settings: tuple[Setting, ...] = ()

    @property
    def text(self) -> str:
        """The changes."""
        return "; ".join(each.text for each in self.settings) or "as it is"

    def plus(self, other: "Option") -> "Option":
        """Return both options together; of one setting, this option's value counts."""
        mine = {each.path for each in self.settings}
        more = tuple(each for each in other.settings if each.path not in mine)
        return Option((*self.settings, *more))


@dataclass(frozen=True)
class Group:
    """Models that share capacity, so that one rehearsal tries one option of each group."""

    models: tuple[str, ...]
    settings: tuple[tuple[Setting, ...], ...]
    """Other values of each setting."""

    @property
    def name(self) -> str:
        """The models."""
        return ", ".join(self.models)

    @property
    def singles(self) -> Iterator[Option]:
        """Options that change one setting: first one value of each setting, then the next."""
        longest = max((len(values) for values in self.settings), default=0)
        for at in range(longest):
            for values in self.settings:
                if at < len(values):
                    yield Option((values[at],))


def groups_of(
    plan: Plan, document: Mapping[str, Any], bounds: Bounds, models: Sequence[str]
) -> list[Group]:
    """Return the groups of a stack, with the values that a valid stack may have.

    Args:
        plan: The stack.
        document: Its settings, as its file has them.
        bounds: What may be tried.
        models: Models that are rehearsed; what others share is left as it is.
    """
    platform = plan.platform
    by_capacity: dict[str, list[str]] = {}
    for name, model in platform.models.items():
        by_capacity.setdefault(model.capacity, []).append(name)
    found: list[Group] = []
    for capacity, names in by_capacity.items():
        mine = tuple(name for name in names if name in models)
        if not mine:
            continue
        settings = [each for name in mine for each in _of_model(plan, name, bounds)]
        is_usual = all(_has_objective(platform.models[name]) for name in names)
        if len(mine) == len(names) and (is_usual or bounds.capacity is not None):
            settings += _of_capacity(capacity, platform.capacity[capacity], bounds)
        valid = [tuple(one for one in each if _is_valid(document, one)) for each in settings]
        found.append(Group(mine, tuple(each for each in valid if each)))
    return found


def _is_valid(document: Mapping[str, Any], setting: Setting) -> bool:
    try:
        edited(document, Option((setting,)))
    except StackError:
        return False
    return True


def edited(document: Mapping[str, Any], option: Option) -> Plan:
    """Return a stack with an option's settings.

    Raises:
        StackError: The stack would not be valid.
    """
    made: Any = deepcopy(dict(document))
    put(made, option)
    return resolve(parse(json.dumps(made)))


def put(document: Any, option: Option) -> None:
    """Put an option's settings into the settings of a stack."""
    for setting in option.settings:
        *above, last = setting.path
        place: Any = document
        for name in above:
            place = place.setdefault(name, {})
        if last == "rungs":
            reorder(place[last], setting.value)
        else:
            value = setting.value
            place[last] = list(value) if isinstance(value, tuple) else value


def reorder(rungs: Any, order: Any) -> None:
    """Reorder a list in place, with the comments that ruamel.yaml keeps beside its items."""
    old = list(rungs)
    comments: Any = getattr(getattr(rungs, "ca", None), "items", {})
    kept = dict(comments)
    comments.clear()
    for at, index in enumerate(order):
        rungs[at] = old[index]
        if index in kept:
            comments[at] = kept[index]


# -- values


def _of_model(plan: Plan, name: str, bounds: Bounds) -> Iterator[tuple[Setting, ...]]:
    model = plan.platform.models[name]
    if bounds.models is None:
        if not _has_objective(model):
            return
        tried = _usual(plan, name, model)
    elif name in bounds.models:
        tried = bounds.models[name]
    else:
        return
    where = ("models", name)
    is_paired = any(served.form is Form.PAIRED for served in plan.models[name])
    for field in _REPLICAS:
        if field == "standby" and not is_paired:
            continue
        if field == "max" and model.disk is not None:
            continue  # all replicas share the disk's throughput, so that they start more slowly
        now: int | None = getattr(model.replicas, field)
        if now is None:
            now = plan.models[name][0].standby
        yield _settings((*where, "replicas", field), now, getattr(tried, field))
    for field in _TARGETS:
        now = getattr(model.autoscaling, field)
        if now is not None:
            yield _settings((*where, "autoscaling", field), now, getattr(tried, field))
    present = tuple(plan.platform.regions_of(model))
    path = (*where, "regions")
    yield tuple(
        Setting(path, each, f"{'.'.join(path)} {', '.join(present)} → {', '.join(each)}")
        for each in tried.regions
        if set(each) != set(present)
    )


def _has_objective(model: Model) -> bool:
    slo = model.slo
    return slo is not None and (slo.ttft_p95_ms is not None or slo.tpot_p95_ms is not None)


def _settings(path: Path, now: int, values: Sequence[int]) -> tuple[Setting, ...]:
    return tuple(
        Setting(path, each, f"{'.'.join(path)} {now} → {each}")
        for each in dict.fromkeys(values)
        if each != now
    )


def _usual(plan: Plan, name: str, model: Model) -> ModelBounds:
    """Return the values to try by default: near the present ones, and half and twice of them."""
    replicas, targets = model.replicas, model.autoscaling
    least, most = replicas.min, replicas.max
    # the minimum of each window is above the one outside of them
    windows = () if replicas.schedule is None else replicas.schedule.windows
    largest = min((window.min - 1 for window in windows), default=most)
    standby = plan.models[name][0].standby
    running = targets.running_requests
    regions = tuple(plan.platform.regions_of(model))
    is_global = plan.front.gateway.has_fleet_gateway or plan.front.gateway.front is Front.GLOBAL
    without = tuple(tuple(each for each in regions if each != one) for one in regions)
    return ModelBounds(
        min=_near((least - 1, least + 1, 2 * least), 1, largest),
        standby=_near((0, standby + 1), 0, most),
        scale_in_delay_seconds=_near((replicas.scale_in_delay_seconds // 2,), 30, 3600),
        queue_depth=_near((targets.queue_depth * 2, targets.queue_depth // 2), 1, 1000),
        kv_cache_percent=_near(
            (min(targets.kv_cache_percent + 10, 95), targets.kv_cache_percent - 20), 10, 95
        ),
        running_requests=() if running is None else _near((running * 2, running // 2), 1, 100_000),
        regions=without if is_global and len(regions) > 1 else (),
    )


def _near(values: Sequence[int], least: int, most: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(each for each in values if least <= each <= most))


def _of_capacity(name: str, capacity: Capacity, bounds: Bounds) -> Iterator[tuple[Setting, ...]]:
    if bounds.capacity is None:
        orders = CapacityBounds(order=(Order.SPOT_FIRST, Order.SPOT_LAST)).order
    else:
        orders = bounds.capacity.get(name, CapacityBounds()).order
    if capacity.node_pools is not None:
        return  # the pools have the names of their rungs
    path = ("capacity", name, "rungs")
    rungs = [
        (
            f"{each.accelerator} {each.topology} {each.count} {each.hosts} {each.machine_type}",
            each.provisioning.value,
        )
        for each in capacity.rungs
    ]
    found: list[Setting] = []
    for order in orders:
        indices = tuple(ordered(rungs, order))
        if indices != tuple(range(len(rungs))):
            found.append(Setting(path, indices, f"{'.'.join(path)} {order.value}"))
    yield tuple(found)


def ordered(rungs: Sequence[tuple[str, str]], order: Order) -> list[int]:
    """Return indices of rungs in an order.

    Args:
        rungs: Hardware and way to buy of each.
        order: Order of rungs of the same hardware.
    """
    first = {hardware: at for at, (hardware, _) in reversed(list(enumerate(rungs)))}

    def place(at: int) -> tuple[int, int, int]:
        hardware, way = rungs[at]
        is_spot = way == "spot"
        late = is_spot if order is Order.SPOT_LAST else not is_spot
        return first[hardware], 0 if way in ("reservation", "calendar") else 1 + late, at

    return sorted(range(len(rungs)), key=place)
