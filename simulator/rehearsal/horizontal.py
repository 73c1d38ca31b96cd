"""Decisions of the HorizontalPodAutoscaler (autoscaling/v2), as pure functions.

They follow kubernetes v1.37.0, pkg/controller/podautoscaler: `replica_calculator.go` (metrics to
replicas), `horizontal.go` (several metrics, stabilization, policies). The twin runs the program
itself; the rehearsal calls these functions. The documented rules are in
kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from twin.cluster.base.fields import part, parts
from twin.cluster.base.quantities import quantity
from twin.wire.kube import JsonObject

TOLERANCE = 0.1
"""Deviation from a target that changes nothing, as a share of it; the default of the program."""
_MOST = 2**31 - 1

Direction = Literal["up", "down"]


class NoMetricError(ValueError):
    """A metric has no value, so it proposes nothing."""


@dataclass(frozen=True)
class Metric:
    """A metric with a target average per replica."""

    name: str
    """Name in the metrics API."""
    target: float
    is_external: bool = False
    """Whether it is one value for the whole target, not one for each pod."""


@dataclass(frozen=True)
class Policy:
    """A limit on changes within a period."""

    is_percent: bool
    value: int
    period_seconds: float


@dataclass(frozen=True)
class Rules:
    """The behavior in one direction."""

    window_seconds: float
    policies: tuple[Policy, ...]
    select: str = "Max"
    """`Max`, `Min` or `Disabled`."""


@dataclass(frozen=True)
class Autoscaler:
    """A HorizontalPodAutoscaler."""

    name: str
    minimum: int
    maximum: int
    metrics: tuple[Metric, ...]
    up: Rules
    down: Rules
    tolerance: float = TOLERANCE


@dataclass
class History:
    """What an autoscaler remembers: recommendations and changes, as (seconds, number)."""

    recommendations: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    ups: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    downs: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])


@dataclass(frozen=True)
class Pods:
    """The pods of a target, and what their metrics say.

    A pod that is Pending, or Running without a value, counts by its state and not by its load.
    """

    values: Mapping[str, Sequence[float]]
    """Values of running pods, by metric; a pod without a sample has none."""
    running: int
    """Pods that run, ready or not."""
    pending: int
    """Pods that do not run yet."""
    external: Mapping[str, float] = field(default_factory=dict[str, float])
    """Values of external metrics."""


_UP = Rules(0.0, (Policy(True, 100, 15), Policy(False, 4, 15)))
_DOWN = Rules(300.0, (Policy(True, 100, 15),))


def parse(item: JsonObject) -> Autoscaler:
    """Return the autoscaler of an API object with targets of the type AverageValue."""
    spec: JsonObject = item["spec"]
    behavior = part(spec, "behavior")
    return Autoscaler(
        name=item["metadata"]["name"],
        minimum=int(spec.get("minReplicas", 1)),
        maximum=int(spec["maxReplicas"]),
        metrics=tuple(_metric(each) for each in parts(spec, "metrics")),
        up=_rules(part(behavior, "scaleUp"), _UP),
        down=_rules(part(behavior, "scaleDown"), _DOWN),
    )


def _metric(item: JsonObject) -> Metric:
    is_external = item["type"] == "External"
    body: JsonObject = item["external" if is_external else "pods"]
    return Metric(
        str(body["metric"]["name"]), quantity(body["target"]["averageValue"]), is_external
    )


def _rules(item: JsonObject, usual: Rules) -> Rules:
    policies = tuple(
        Policy(each["type"] == "Percent", int(each["value"]), float(each["periodSeconds"]))
        for each in parts(item, "policies")
    )
    window = item.get("stabilizationWindowSeconds")
    return Rules(
        usual.window_seconds if window is None else float(window),
        policies or usual.policies,
        str(item.get("selectPolicy") or usual.select),
    )


def proposal(metric: Metric, current: int, pods: Pods, tolerance: float = TOLERANCE) -> int:
    """Return the number of replicas that one metric proposes.

    Args:
        metric: Metric.
        current: Current number of replicas.
        pods: The pods of the target.
        tolerance: See `TOLERANCE`.

    Raises:
        NoMetricError: The metric has no value.
    """
    if metric.is_external:
        return _external(metric, current, pods, tolerance)
    if pods.running + pods.pending == 0:
        raise NoMetricError("no pods returned by selector while calculating replica count")
    values = pods.values.get(metric.name, ())
    if not values:
        raise NoMetricError("did not receive metrics for targeted pods (pods might be unready)")
    missing = pods.running - len(values)
    ratio = sum(values) / len(values) / metric.target
    has_unready = pods.pending > 0 and ratio > 1
    if not has_unready and missing == 0:
        return current if _is_within(ratio, tolerance) else math.ceil(ratio * len(values) - 1e-12)
    total, count = sum(values), len(values)
    if missing:  # at the target where the load is low, idle where it is high
        total += missing * metric.target if ratio < 1 else 0.0
        count += missing
    count += pods.pending if has_unready else 0
    changed = total / count / metric.target
    if _is_within(changed, tolerance) or (ratio < 1 < changed) or (changed < 1 < ratio):
        return current
    wanted = math.ceil(changed * count - 1e-12)
    is_opposite = (changed < 1 and wanted > current) or (changed > 1 and wanted < current)
    return current if is_opposite else wanted


def _external(metric: Metric, current: int, pods: Pods, tolerance: float) -> int:
    value = pods.external.get(metric.name)
    if value is None:
        raise NoMetricError(f"no metrics returned from external metrics API for {metric.name}")
    if current and _is_within(value / (metric.target * current), tolerance):
        return current
    return math.ceil(value / metric.target - 1e-12)


def _is_within(ratio: float, tolerance: float) -> bool:
    return 1 - tolerance <= ratio <= 1 + tolerance


def desired(scaler: Autoscaler, current: int, pods: Pods) -> int | None:
    """Return the number that the metrics propose together: the largest one.

    Returns:
        None for no change: no metric has a value, or one is missing and the others would remove
        replicas.
    """
    found: list[int] = []
    for metric in scaler.metrics:
        try:
            found.append(proposal(metric, current, pods, scaler.tolerance))
        except NoMetricError:
            continue
    if not found or (len(found) < len(scaler.metrics) and max(found) < current):
        return None
    return max(found)


def decide(scaler: Autoscaler, current: int, pods: Pods, history: History, now: float) -> int:
    """Return the new number of replicas, and record it in the history.

    Args:
        scaler: Autoscaler.
        current: Number of replicas that the target asks for.
        pods: The pods of the target.
        history: Earlier decisions.
        now: Current time, in seconds.
    """
    if current == 0 and scaler.minimum != 0:
        return 0  # scaling is disabled
    if current > scaler.maximum:
        wanted = scaler.maximum
    elif current < scaler.minimum:
        wanted = scaler.minimum
    else:
        proposed = desired(scaler, current, pods)
        if proposed is None:
            return current
        wanted = _limited(scaler, current, _stable(scaler, current, proposed, history, now),
                          history, now)  # fmt: skip
    if wanted > current:
        history.ups.append((now, wanted - current))
    elif wanted < current:
        history.downs.append((now, current - wanted))
    _forget(scaler, history, now)
    return wanted


def _stable(scaler: Autoscaler, current: int, proposed: int, history: History, now: float) -> int:
    """Return the proposal within the recommendations of the stabilization windows."""
    up = down = proposed
    for at, number_then in history.recommendations:
        if at > now - scaler.up.window_seconds:
            up = min(up, number_then)
        if at > now - scaler.down.window_seconds:
            down = max(down, number_then)
    history.recommendations.append((now, proposed))
    return min(max(current, up), down)


def _limited(scaler: Autoscaler, current: int, wanted: int, history: History, now: float) -> int:
    """Return a number within the limits of the policies and the bounds."""
    if wanted > current:
        limit = max(current, _limit(scaler.up, "up", current, history, now))
        return min(wanted, limit, scaler.maximum)
    if wanted < current:
        limit = min(current, _limit(scaler.down, "down", current, history, now))
        return max(wanted, limit, scaler.minimum)
    return wanted


def _limit(rules: Rules, direction: Direction, current: int, history: History, now: float) -> int:
    if rules.select == "Disabled":
        return current
    found: list[int] = []
    for policy in rules.policies:
        since = now - policy.period_seconds
        added = sum(change for at, change in history.ups if at > since)
        removed = sum(change for at, change in history.downs if at > since)
        start = current - added + removed
        sign = 1 if direction == "up" else -1
        if not policy.is_percent:
            found.append(start + sign * policy.value)
        elif direction == "up":
            found.append(math.ceil(start * (1 + policy.value / 100) - 1e-12))
        else:
            found.append(int(start * (1 - policy.value / 100)))
    if not found:
        return _MOST if direction == "up" else 0
    takes_largest_change = rules.select == "Max"
    return max(found) if (direction == "up") is takes_largest_change else min(found)


def _forget(scaler: Autoscaler, history: History, now: float) -> None:
    longest = max(scaler.up.window_seconds, scaler.down.window_seconds)
    history.recommendations = [one for one in history.recommendations if one[0] > now - longest]
    periods = [one.period_seconds for one in (*scaler.up.policies, *scaler.down.policies)]
    since = now - max(periods, default=0.0)
    history.ups = [one for one in history.ups if one[0] > since]
    history.downs = [one for one in history.downs if one[0] > since]
