"""Recorded series of `Rules` objects, evaluated over pods. Pure.

Known is one shape of expression; everything else has no data:

    sum(kube_pod_status_phase{phase="Pending",namespace="NS",pod=~"REGEX"})
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from twin.gke.fields import part, parts
from twin.kube import JsonObject

_EXPRESSION = re.compile(r"^sum\(\s*kube_pod_status_phase\{(?P<matchers>[^{}]*)\}\s*\)$")
_MATCHER = re.compile(r'\s*(?P<key>\w+)\s*(?P<op>=~|!~|!=|=)\s*"(?P<value>(?:[^"\\]|\\.)*)"\s*')
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


@dataclass(frozen=True)
class Series:
    """One recorded series: its name, its labels and what it sums."""

    name: str
    labels: dict[str, str]
    matchers: tuple[tuple[str, str, str], ...]
    """(label, operator, value) on kube_pod_status_phase."""


def parse_expression(expression: str) -> tuple[tuple[str, str, str], ...] | None:
    """Return the label matchers of an expression of the one known shape, else None."""
    match = _EXPRESSION.match(expression.strip())
    if match is None:
        return None
    found: list[tuple[str, str, str]] = []
    rest = match["matchers"]
    while rest.strip():
        item = _MATCHER.match(rest)
        if item is None:
            return None
        found.append((item["key"], item["op"], re.sub(r"\\(.)", r"\1", item["value"])))
        rest = rest[item.end() :]
        if rest.startswith(","):
            rest = rest[1:]
        elif rest.strip():
            return None
    return tuple(found)


def series_of(item: JsonObject) -> list[Series]:
    """Return the recorded series of a Rules, ClusterRules or GlobalRules object.

    A `Rules` object sees its own namespace only, as in Managed Prometheus.
    """
    namespace = item["metadata"].get("namespace")
    found: list[Series] = []
    for group in parts(item["spec"], "groups"):
        for rule in parts(group, "rules"):
            matchers = parse_expression(rule.get("expr", "")) if rule.get("record") else None
            if matchers is None:
                continue
            labels = {key: str(value) for key, value in part(rule, "labels").items()}
            if namespace is not None:
                matchers = (*matchers, ("namespace", "=", namespace))
                labels["namespace"] = namespace
            found.append(Series(rule["record"], labels, matchers))
    return found


def evaluate(series: Series, pods: Iterable[JsonObject]) -> int | None:
    """Return the sum of kube_pod_status_phase over pods; None where no series matches.

    kube-state-metrics has one series for each pod and phase, 1 for the phase the pod is in, so a
    matcher on the phase leaves a 0 for each pod in another one.
    """
    total, any_series = 0, False
    for pod in pods:
        phase_now = part(pod, "status").get("phase", "Unknown")
        for phase in _PHASES:
            meta = pod["metadata"]
            labels = {
                "namespace": meta["namespace"],
                "phase": phase,
                "pod": meta["name"],
                "uid": meta["uid"],
            }
            if all(_matches(labels.get(k, ""), op, value) for k, op, value in series.matchers):
                any_series = True
                total += phase == phase_now
    return total if any_series else None


def _matches(held: str, operator: str, value: str) -> bool:
    if operator in {"=", "!="}:
        return (held == value) == (operator == "=")
    return (re.fullmatch(value, held) is not None) == (operator == "=~")


def parse_selector(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return a label selector's requirements as (key, operator, values).

    Raises:
        ValueError: it uses a form the horizontal autoscaler does not send.
    """
    found: list[tuple[str, str, tuple[str, ...]]] = []
    for piece in re.findall(r"(?:[^,(]|\([^)]*\))+", text):
        item = piece.strip()
        listed = re.match(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$", item)
        compared = re.match(r"^([^=!\s]+)\s*(==|!=|=)\s*(\S*)$", item)
        if listed:
            values = tuple(value.strip() for value in listed[3].split(","))
            found.append((listed[1], listed[2], values))
        elif compared:
            found.append((compared[1], "notin" if compared[2] == "!=" else "in", (compared[3],)))
        elif re.match(r"^!?\S+$", item):
            found.append((item.lstrip("!"), "absent" if item.startswith("!") else "exists", ()))
        else:
            raise ValueError(f"selector not understood: {item!r}")
    return found


def selected(labels: dict[str, str], selector: str) -> bool:
    """Say whether a series is meant by a selector such as `metric.labels.model=NAME`."""
    for key, operator, values in parse_selector(selector):
        held = labels.get(key.removeprefix("metric.labels.").removeprefix("resource.labels."))
        if key.startswith("resource.labels.") and held is None:
            continue  # location, cluster and job name this cluster itself
        checks: dict[str, bool] = {
            "in": held in values,
            "notin": held not in values,
            "exists": held is not None,
            "absent": held is None,
        }
        if not checks[operator]:
            return False
    return True
