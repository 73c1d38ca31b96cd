"""What Autopilot rejects: rights on nodes, and accelerators without a kind. Pure.

Rule `autopilot.constraints`. Names and texts are those of GKE's admission webhook.
"""

from collections.abc import Collection, Iterator

from gke_inference.catalogue.accelerators import catalogue_labels
from twin.cluster.admission.requests import CLASS
from twin.cluster.admission.templates import requested
from twin.cluster.base.fields import part, parts, text_map
from twin.wire.kube import JsonObject
from twin.world.rules import all_rules

Denial = tuple[str, str]
"""Name of a constraint, and what violates it."""
_HOST = ("hostIPC", "hostNetwork", "hostPID")
_HOSTNAME = "kubernetes.io/hostname"
_MANAGED = frozenset(["kube-system"])


def denials(
    template: JsonObject, namespace: str, accelerator_classes: Collection[str]
) -> Iterator[Denial]:
    """Yield what a pod template violates.

    Args:
        template: pod or pod template.
        namespace: its namespace.
        accelerator_classes: names of the compute classes of the cluster that have accelerators.
    """
    spec = part(template, "spec")
    if namespace in _MANAGED:
        yield "managed-namespaces-limitation", f'the namespace "{namespace}" is managed'
    for field in _HOST:
        if spec.get(field):
            yield (
                "autogke-disallow-hostnamespaces",
                f"enabling {field} is not allowed in Autopilot.",
            )
    for container in (*parts(spec, "initContainers"), *parts(spec, "containers")):
        yield from _of_container(container, spec)
    yield from _accelerators(spec, accelerator_classes)
    for term in _terms(spec):
        for each in parts(term, "matchExpressions"):
            if each["key"] == _HOSTNAME:
                yield (
                    "autogke-node-affinity-selector-limitation",
                    f"node affinity by {_HOSTNAME} is not allowed in Autopilot.",
                )


def _of_container(container: JsonObject, spec: JsonObject) -> Iterator[Denial]:
    name = container["name"]
    security = part(container, "securityContext")
    if security.get("privileged"):
        yield (
            "autogke-disallow-privilege",
            f"container {name} is privileged; not allowed in Autopilot",
        )
    allowed: list[str] = all_rules()["autopilot.capabilities"].value
    added = [str(each) for each in part(security, "capabilities").get("add") or ()]
    if refused := [each for each in added if each.removeprefix("CAP_") not in allowed]:
        yield (
            "autogke-default-linux-capabilities",
            f"linux capability '{','.join(refused)}' on container '{name}' not allowed; Autopilot"
            f" only allows the capabilities: '{','.join(allowed)}'.",
        )
    for port in parts(container, "ports"):
        if port.get("hostPort"):
            yield (
                "autogke-no-host-port",
                f"container {name} specifies host ports; disallowed in Autopilot.",
            )
    yield from _host_paths(container, spec)


def _host_paths(container: JsonObject, spec: JsonObject) -> Iterator[Denial]:
    prefix = str(all_rules()["autopilot.host-path"].value)
    paths = {
        each["name"]: str(each["hostPath"].get("path", ""))
        for each in parts(spec, "volumes")
        if each.get("hostPath")
    }
    for mount in parts(container, "volumeMounts"):
        volume = mount["name"]
        if volume not in paths:
            continue
        if not mount.get("readOnly"):
            yield (
                "autogke-no-write-mode-hostpath",
                f"hostPath volume {volume} in container {container['name']} is accessed in write"
                " mode; disallowed in Autopilot.",
            )
        elif not f"{paths[volume]}/".startswith(prefix):
            yield (
                "autogke-no-write-mode-hostpath",
                f"hostPath volume {volume} used in container {container['name']} uses path"
                f" {paths[volume]} which is not allowed in Autopilot. Allowed path prefixes for"
                f" hostPath volumes are: [{prefix}].",
            )


def _accelerators(spec: JsonObject, classes: Collection[str]) -> Iterator[Denial]:
    selector = text_map(spec, "nodeSelector")
    labels = catalogue_labels()
    for resource, constraint, wanted in (
        ("nvidia.com/gpu", "autogke-gpu-limitation", [labels["gpu_accelerator"]]),
        (
            "google.com/tpu",
            "autogke-tpu-limitation",
            [labels["tpu_accelerator"], labels["tpu_topology"]],
        ),
    ):
        asks = any(requested(each, resource) is not None for each in parts(spec, "containers"))
        has_kind = all(label in selector for label in wanted) or selector.get(CLASS) in classes
        if asks and not has_kind:
            yield (
                constraint,
                f"When requesting '{resource}' resources, you must specify either node selector"
                f" '{' and '.join(wanted)}' with accelerator type or node selector '{CLASS}' with"
                " existing custom compute class which has at least one priority rule with"
                " accelerators.",
            )


def _terms(spec: JsonObject) -> list[JsonObject]:
    affinity = part(spec, "affinity", "nodeAffinity")
    required = part(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    return parts(required, "nodeSelectorTerms")
