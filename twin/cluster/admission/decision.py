"""The decision about one workload of an Autopilot cluster. Pure."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from twin.cluster.admission.constraints import denials
from twin.cluster.admission.requests import adjusted
from twin.cluster.admission.templates import PATHS, is_daemon, template_of
from twin.cluster.base.fields import part, parts
from twin.wire.kube import JsonObject

ADJUSTMENT = "autopilot.gke.io/resource-adjustment"
"""Annotation of a pod whose requests were changed."""


@dataclass(frozen=True)
class Decision:
    """What admission does with a workload."""

    workload: JsonObject
    """As it is admitted: only pods are changed (rule `autopilot.adjustment`)."""
    violations: dict[str, list[str]]
    """What it violates by constraint; it is rejected if there is anything."""
    warnings: tuple[str, ...]
    """Notes to who sent it."""

    @property
    def message(self) -> str:
        """Text of the rejection, as GKE's webhook writes it."""
        details = json.dumps({f"[denied by {key}]": each for key, each in self.violations.items()})
        return (
            "GKE Warden rejected the request because it violates one or more constraints.\n"
            f"Violations details: {details}"
        )


def accelerator_classes(objects: Iterable[JsonObject]) -> frozenset[str]:
    """Return the names of the compute classes with a rule that has an accelerator."""
    return frozenset(
        str(each["metadata"]["name"])
        for each in objects
        if any(
            rule.get("gpu") or rule.get("tpu") for rule in parts(part(each, "spec"), "priorities")
        )
    )


def decide(
    workload: JsonObject, namespace: str, version: str, classes: Collection[str]
) -> Decision:
    """Return what an Autopilot cluster does with a workload.

    Args:
        workload: object of a kind in `templates.PATHS`; it is not changed.
        namespace: its namespace.
        version: GKE version of the cluster.
        classes: names of its compute classes that have accelerators.
    """
    template = template_of(workload)
    daemon = is_daemon(workload)
    found = adjusted(template, is_daemon=daemon, version=version)
    violations: dict[str, list[str]] = {}
    for constraint, text in denials(found.template, namespace, classes):
        violations.setdefault(constraint, []).append(text)
    for text in found.problems:
        violations.setdefault("autogke-pod-limit-constraints", []).append(text)
    if not found.changed:
        return Decision(workload, violations, ())
    named = f"{workload['kind']} {namespace}/{_name(workload)}"
    warning = (
        f"autopilot-default-resources-mutator:Autopilot updated {named}: adjusted resources to meet"
        f" requirements for containers [{', '.join(found.changed)}]"
        " (see http://g.co/gke/autopilot-resources)"
    )
    if PATHS[workload["kind"]]:
        return Decision(workload, violations, (warning,))
    return Decision(_noted(workload, found.template), violations, (warning,))


def _noted(pod: JsonObject, made: JsonObject) -> JsonObject:
    """Return an adjusted pod with the note of what it was."""
    record = {"input": _resources(pod), "output": _resources(made), "modified": True}
    metadata = dict(part(made, "metadata"))
    notes = {**part(metadata, "annotations"), ADJUSTMENT: json.dumps(record, sort_keys=True)}
    return {**made, "metadata": {**metadata, "annotations": notes}}


def _resources(pod: JsonObject) -> JsonObject:
    return {
        "containers": [
            {**part(each, "resources"), "name": each["name"]}
            for each in parts(part(pod, "spec"), "containers")
        ]
    }


def _name(workload: JsonObject) -> str:
    metadata = part(workload, "metadata")
    return str(metadata.get("name") or metadata.get("generateName", ""))
