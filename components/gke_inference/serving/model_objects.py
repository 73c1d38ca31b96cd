"""Kubernetes objects of a model: Deployments or groups, launcher ConfigMap, disruption budget."""

import json
from collections.abc import Iterable

from gke_inference.base.manifests import Manifest, manifest
from gke_inference.capacity.capacity_buffer import capacity_buffer
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.names import ONE_POD_FORMS
from gke_inference.intent.expert_rules import needs_gpu_initiated_rdma
from gke_inference.serving.device_claims import claim_template, claiming_pod
from gke_inference.serving.dual_container import dual_container_pod
from gke_inference.serving.groups import group_of, group_pods_labels
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.invariants import broken, broken_group, broken_ray_cluster
from gke_inference.serving.launch import annotations, config_map, volumes
from gke_inference.serving.launcher.spec import ADAPTER_NEED, NEEDS, REPLICAS, Serving
from gke_inference.serving.live_adapters import LOADER
from gke_inference.serving.model_plan import CLUSTER_SET, ModelPlan
from gke_inference.serving.networks.interfaces import with_interfaces
from gke_inference.serving.pod_spec import HARDWARE_LABEL, Pod, engine_pod
from gke_inference.serving.ray.cluster_sets import cluster_set
from gke_inference.serving.ray_clusters import cluster_name, ray_clusters
from gke_inference.serving.rdma import network_claims, with_deep_ep, with_rdma
from gke_inference.serving.updates import update_steps

_ROLLOUT_SECONDS = 3600


def deployments(plan: ModelPlan) -> dict[str, Manifest]:
    """Return the Deployments or LeaderWorkerSets by kind of hardware, or one under `any`.

    Keys of Ray clusters end in their index: `gpu-0`.

    Raises:
        InputError: A finished pod template breaks an invariant.
    """
    if plan.form in ONE_POD_FORMS:
        template = _launched(plan, _either(plan))
        for kind, container in zip(sorted(plan.nodes), _engines(template), strict=True):
            _refuse_broken(container, plan.nodes[kind], plan.form)
        return {"any": _gated(plan, "any", _deployment(plan, "any", template))}
    made: dict[str, Manifest] = {}
    for kind, node in plan.nodes.items():
        if plan.target_kinds[kind] == CLUSTER_SET:
            for number, cluster in _clusters(plan, kind).items():
                made[f"{kind}-{number}"] = _gated_cluster(plan, kind, cluster)
            continue
        if node.is_group:
            made[kind] = _gated(plan, kind, _group(plan, kind))
            continue
        template = _launched(plan, _engine_pod(plan, kind))
        for container in _engines(template):
            _refuse_broken(container, node, plan.form)
        made[kind] = _gated(plan, kind, _deployment(plan, kind, template))
    return made


def cluster_sets(plan: ModelPlan) -> dict[str, Manifest]:
    """Return the sets of Ray clusters by kind of hardware."""
    return {
        kind: cluster_set(
            plan.deployments[kind],
            plan.namespace,
            [cluster_name(plan.deployments[kind], number) for number in range(plan.most)],
            budget=_budget_name(plan),
            labels=plan.pod.own_labels,
            replicas=plan.replicas[kind],
            selector={**plan.pod.own_labels, HARDWARE_LABEL: kind},
        )
        for kind, target in plan.target_kinds.items()
        if target == CLUSTER_SET
    }


def buffer_of(plan: ModelPlan) -> Manifest | None:
    """Return the buffer that keeps nodes for the first Deployment, TPU before GPU, if any."""
    count = plan.pod.intent.buffer_replicas
    if not count:
        return None
    return capacity_buffer(next(iter(plan.deployments.values())), plan.namespace, count)


def _engine_pod(plan: ModelPlan, kind: str) -> Manifest:
    node = plan.nodes[kind]
    template = engine_pod(plan.pod, node, plan.files[kind], plan.serving[kind])
    if node.interface_network is not None:
        return with_interfaces(template, node.interface_network)
    if not node.has_rdma:
        return template
    template = with_rdma(template, plan.network_claims, plan.pod)
    if needs_gpu_initiated_rdma(plan.pod.intent, node.hosts):
        return with_deep_ep(template)
    return template


def _either(plan: ModelPlan) -> Manifest:
    """Return the pod template that runs on either kind of hardware."""
    parts = (plan.pod, plan.nodes, plan.files, plan.serving)
    if plan.form == "dra":
        return claiming_pod(*parts)
    return dual_container_pod(*parts)


def claims(plan: ModelPlan) -> dict[str, Manifest]:
    """Return the ResourceClaimTemplates of a model's pods by role."""
    found: dict[str, Manifest] = {}
    if plan.form == "dra":
        found["devices"] = claim_template(plan.pod, plan.namespace)
    for node in plan.nodes.values():
        if node.has_rdma:
            found["rdma"] = network_claims(plan.network_claims, plan.namespace, node)
    return found


def _launched(plan: ModelPlan, template: Manifest) -> Manifest:
    """Return a pod template with the launcher's files; pods restart when the files change."""
    template["metadata"]["annotations"] |= annotations(plan.launcher)
    template["spec"]["volumes"] += volumes(plan.config)
    return template


def launcher_config(plan: ModelPlan) -> Manifest:
    """Return the ConfigMap with the launcher, its spec and the model's own chat template."""
    return config_map(plan.config, plan.namespace, plan.launcher)


def disruption_budget(plan: ModelPlan) -> Manifest:
    """Return the PodDisruptionBudget: one replica at a time, across all hardware of the model.

    Prefill and decode replicas have a budget each, so one of each may be disrupted at a time.
    """
    limit: Manifest = {"maxUnavailable": 1}
    if CLUSTER_SET in plan.target_kinds.values():
        # maxUnavailable needs a scale subresource of the pods' owner, which RayCluster does not
        # have; the scaler adapts the number to the running clusters
        (kind,) = plan.nodes
        limit = {"minAvailable": plan.replicas[kind] * plan.nodes[kind].hosts - 1}
    has_groups = any(node.is_group for node in plan.nodes.values())
    # Losing a worker ends its group, so workers count as well.
    counts_workers = has_groups and plan.pod.role is None
    covered = group_pods_labels(plan.pod) if counts_workers else plan.pod.own_labels
    return manifest(
        "pod_disruption_budget",
        _budget_name(plan),
        plan.namespace,
        labels=plan.pod.own_labels,
        spec={**limit, "selector": {"matchLabels": covered}},
    )


def _budget_name(plan: ModelPlan) -> str:
    return plan.model if plan.pod.role is None else f"{plan.model}-{plan.pod.role}"


def _engines(template: Manifest) -> list[Manifest]:
    return [one for one in template["spec"]["containers"] if one["name"] != LOADER]


def _refuse_broken(container: Manifest, node: Hardware, form: str) -> None:
    _refuse(container["name"], broken(container, node, form))


def _refuse(what: str, problems: list[str]) -> None:
    if problems:
        raise InputError("model", f"must render a valid {what}", Bare("; ".join(problems)))


def needs(plan: ModelPlan, kinds: Iterable[str]) -> list[str]:
    """Return the weights that servers on some hardware read, in the format of the weights gate."""
    intent, found = plan.pod.intent, [plan.pod.intent.weights]
    guess = intent.settings.speculative
    if guess is not None and guess.weights is not None:
        found.append(guess.weights)
    found += [model.weights for _, model in sorted(intent.further_models.items())]
    adapters = {name for kind in kinds for name in plan.files[kind].adapters}
    return found + [f"{ADAPTER_NEED}{intent.adapters[name]}" for name in sorted(adapters)]


def _gated(plan: ModelPlan, kind: str, made: Manifest) -> Manifest:
    """Return the workload, with no replicas if a weights gate in its namespace starts them."""
    if not plan.has_gate:
        return made
    made["metadata"]["annotations"] |= {
        NEEDS: json.dumps(needs(plan, plan.nodes if kind == "any" else [kind])),
        REPLICAS: str(plan.replicas[kind]),
    }
    made["spec"]["replicas"] = 0
    return made


def _gated_cluster(plan: ModelPlan, kind: str, made: Manifest) -> Manifest:
    """Return the Ray cluster, suspended if a weights gate starts it.

    The gate opens a cluster that is suspended anyway, too, but leaves it to the scaler.
    """
    if not plan.has_gate:
        return made
    made["metadata"]["annotations"] |= {
        NEEDS: json.dumps(needs(plan, [kind])),
        REPLICAS: "0" if made["spec"]["suspend"] else "1",
    }
    made["spec"]["suspend"] = True
    return made


def _clusters(plan: ModelPlan, kind: str) -> dict[str, Manifest]:
    made = ray_clusters(*_across_hosts(plan, kind), replicas=plan.replicas[kind], most=plan.most)
    for cluster in made.values():
        _refuse("Ray cluster", broken_ray_cluster(cluster, plan.nodes[kind]))
    return made


def _group(plan: ModelPlan, kind: str) -> Manifest:
    surge, unavailable = update_steps(sum(plan.replicas.values()))
    made = group_of(
        *_across_hosts(plan, kind),
        replicas=plan.replicas[kind],
        updates={"maxSurge": surge, "maxUnavailable": unavailable},
    )
    _refuse("group", broken_group(made, plan.nodes[kind]))
    return made


def _across_hosts(plan: ModelPlan, kind: str) -> tuple[str, str, Pod, Hardware, Manifest, Serving]:
    """Return what a group and a Ray cluster of several hosts are built from."""
    template = _launched(plan, _engine_pod(plan, kind))
    name, serving = plan.deployments[kind], plan.serving[kind]
    return name, plan.namespace, plan.pod, plan.nodes[kind], template, serving


def _deployment(plan: ModelPlan, kind: str, template: Manifest) -> Manifest:
    """Return one Deployment.

    Pulumi does not wait for it, because a rung may be out of stock for hours.
    """
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
