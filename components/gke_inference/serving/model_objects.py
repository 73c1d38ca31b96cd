"""From a model's plan to its objects: Deployments or groups, the launcher's files, the budget."""

import json
from collections.abc import Iterable

from gke_inference.base.manifests import Manifest, manifest
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.serving.dual_container import dual_container_pod
from gke_inference.serving.groups import group_of, group_pods_labels
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.invariants import broken, broken_group
from gke_inference.serving.launch import annotations, config_map, volumes
from gke_inference.serving.launcher.spec import ADAPTER_NEED, NEEDS, REPLICAS
from gke_inference.serving.live_adapters import LOADER
from gke_inference.serving.model_plan import ModelPlan
from gke_inference.serving.pod_spec import HARDWARE_LABEL, engine_pod
from gke_inference.serving.updates import update_steps

_ROLLOUT_SECONDS = 3600


def deployments(plan: ModelPlan) -> dict[str, Manifest]:
    """Returns the Deployments, or sets of groups, by kind of hardware, or one under `any`.

    Raises:
        InputError: A finished pod template breaks an invariant.
    """
    if plan.form == "dual-container":
        template = _launched(
            plan, dual_container_pod(plan.pod, plan.nodes, plan.files, plan.serving)
        )
        for kind, container in zip(sorted(plan.nodes), _engines(template), strict=True):
            _refuse_broken(container, plan.nodes[kind])
        return {"any": _gated(plan, "any", _deployment(plan, "any", template))}
    made: dict[str, Manifest] = {}
    for kind, node in plan.nodes.items():
        if node.is_group:
            made[kind] = _gated(plan, kind, _group(plan, kind))
            continue
        template = _launched(plan, engine_pod(plan.pod, node, plan.files[kind], plan.serving[kind]))
        for container in _engines(template):
            _refuse_broken(container, node)
        made[kind] = _gated(plan, kind, _deployment(plan, kind, template))
    return made


def _launched(plan: ModelPlan, template: Manifest) -> Manifest:
    """Returns a pod template with the launcher's files, restarted when they change."""
    template["metadata"]["annotations"] |= annotations(plan.spec)
    template["spec"]["volumes"] += volumes(plan.config)
    return template


def launcher_config(plan: ModelPlan) -> Manifest:
    """Returns the ConfigMap with the launcher and what it is told."""
    return config_map(plan.config, plan.namespace, plan.spec)


def disruption_budget(plan: ModelPlan) -> Manifest:
    """Returns the PodDisruptionBudget: one replica at a time, over all hardware of the model.

    Prefill and decode replicas have one each: losing one of both at a time is what they are for.
    """
    has_groups = any(node.is_group for node in plan.nodes.values())
    # A worker that goes takes its whole group along, so workers count, too.
    covered = group_pods_labels(plan.pod) if has_groups else plan.pod.own_labels
    return manifest(
        "pod_disruption_budget",
        plan.model if plan.pod.role is None else f"{plan.model}-{plan.pod.role}",
        plan.namespace,
        labels=plan.pod.own_labels,
        spec={"maxUnavailable": 1, "selector": {"matchLabels": covered}},
    )


def _engines(template: Manifest) -> list[Manifest]:
    return [one for one in template["spec"]["containers"] if one["name"] != LOADER]


def _refuse_broken(container: Manifest, node: Hardware) -> None:
    if problems := broken(container, node):
        found = Bare("; ".join(problems))
        raise InputError("model", f"must render a sound {container['name']}", found)


def needs(plan: ModelPlan, kinds: Iterable[str]) -> list[str]:
    """Returns what servers on some hardware read, in the words of the weights' gate."""
    intent, found = plan.pod.intent, [plan.pod.intent.weights]
    if intent.speculative is not None and intent.speculative.weights is not None:
        found.append(intent.speculative.weights)
    adapters = {name for kind in kinds for name in plan.files[kind].adapters}
    return found + [f"{ADAPTER_NEED}{intent.adapters[name]}" for name in sorted(adapters)]


def _gated(plan: ModelPlan, kind: str, made: Manifest) -> Manifest:
    """Returns a workload that begins with no replica, where a gate of its namespace opens it."""
    if plan.has_gate:
        kinds = plan.nodes if kind == "any" else [kind]
        made["metadata"]["annotations"] |= {
            NEEDS: json.dumps(needs(plan, kinds)),
            REPLICAS: str(plan.replicas[kind]),
        }
        made["spec"]["replicas"] = 0
    return made


def _group(plan: ModelPlan, kind: str) -> Manifest:
    node = plan.nodes[kind]
    surge, unavailable = update_steps(sum(plan.replicas.values()))
    made = group_of(
        plan.deployments[kind],
        plan.namespace,
        plan.pod,
        node,
        _launched(plan, engine_pod(plan.pod, node, plan.files[kind], plan.serving[kind])),
        plan.serving[kind],
        replicas=plan.replicas[kind],
        updates={"maxSurge": surge, "maxUnavailable": unavailable},
    )
    if problems := broken_group(made, node):
        raise InputError("model", "must render a sound group", Bare("; ".join(problems)))
    return made


def _deployment(plan: ModelPlan, kind: str, template: Manifest) -> Manifest:
    """Returns one Deployment; nothing waits for it, as a rung may be out of stock for hours."""
    surge, unavailable = update_steps(sum(plan.replicas.values()))
    return manifest(
        "deployment",
        plan.deployments[kind],
        plan.namespace,
        annotations={"pulumi.com/skipAwait": "true"},
        labels=template["metadata"]["labels"],
        spec={
            "progressDeadlineSeconds": _ROLLOUT_SECONDS,
            "replicas": plan.replicas[kind],
            "selector": {"matchLabels": {**plan.pod.own_labels, HARDWARE_LABEL: kind}},
            "strategy": {
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
                "type": "RollingUpdate",
            },
            "template": template,
        },
    )
