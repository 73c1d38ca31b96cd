"""Access to properties that may be missing, and to the pods of Kubernetes objects."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from policies.framework.resources import Properties, Resource

CLUSTER = "gcp:container/cluster:Cluster"
BUCKET = "gcp:storage/bucket:Bucket"
NODE_POOL = "gcp:container/nodePool:NodePool"
STACK_REFERENCE = "pulumi:pulumi:StackReference"
"""Present in stacks whose namespace and permissions come from a platform stack."""
NOT_KNOWN = "(known after up)"
"""Placeholder in `render` output for a value that is known only after deployment."""
COMPUTE_CLASS_LABEL = "cloud.google.com/compute-class"
"""Node label and taint key by which pods select a compute class."""
ACCELERATORS = ("google.com/tpu", "nvidia.com/gpu")
ACCELERATOR_PREFIXES = (
    "a2-",
    "a3-",
    "a4-",
    "a4x-",
    "ct4p-",
    "ct5",
    "ct6e-",
    "g2-",
    "g4-",
    "tpu7x-",
)
"""Machine families that always have accelerators."""

_TEMPLATE_PATHS: dict[str, tuple[tuple[str | int, ...], ...]] = {
    "CronJob": (("spec", "jobTemplate", "spec", "template"),),
    "DaemonSet": (("spec", "template"),),
    "Deployment": (("spec", "template"),),
    "Job": (("spec", "template"),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
    "Pod": ((),),
    "RayCluster": (("spec", "headGroupSpec", "template"),),
    "ReplicaSet": (("spec", "template"),),
    "StatefulSet": (("spec", "template"),),
}
_OPTIONAL = frozenset(["leaderTemplate"])
_LISTS: dict[str, tuple[str, ...]] = {"RayCluster": ("spec", "workerGroupSpecs")}
"""Path of a list with further templates, by kind."""

_KEEPERS = ("personal-worker",)
"""Components whose ConfigMap contains workloads, which they create later."""


def is_type(*types: str) -> Callable[[Resource], bool]:
    """Return a test of whether a resource has one of these types."""
    return lambda resource: resource.type in types


def is_kubernetes(*kinds: str) -> Callable[[Resource], bool]:
    """Return a test of whether a resource is a Kubernetes object of one of these kinds."""
    return lambda resource: resource.type.startswith("kubernetes:") and resource.kind in kinds


def is_workload(resource: Resource) -> bool:
    """Return whether a resource creates pods."""
    return resource.type.startswith("kubernetes:") and resource.kind in _TEMPLATE_PATHS


def at(value: Any, *path: str | int) -> Any:
    """Return the value at a path, or None if any part of the path is missing.

    Raises:
        pulumi_policy.proxy.UnknownValueError: it is not known yet.
    """
    for step in path:
        if isinstance(value, Mapping) and step in value:
            value = cast(Mapping[Any, Any], value)[step]
        elif isinstance(value, Sequence) and isinstance(step, int):
            items = cast(Sequence[Any], value)
            value = items[step] if step < len(items) else None
        else:
            return None
    return value


def section(value: Any, *path: str | int) -> Properties:
    """Return the mapping at a path, or an empty one."""
    found = at(value, *path)
    return cast(Properties, found) if isinstance(found, Mapping) else {}


def entries(value: Any, *path: str | int) -> list[Any]:
    """Return the list at a path, or an empty one."""
    found = at(value, *path)
    if isinstance(found, Sequence) and not isinstance(found, str | bytes):
        return list(cast(Sequence[Any], found))
    return []


@dataclass(frozen=True)
class PodTemplate:
    """The pods that a workload creates."""

    path: str
    """Path of the template, such as `spec.template`, for messages."""
    template: Properties

    @property
    def labels(self) -> Properties:
        """Labels of the pods."""
        return section(self.template, "metadata", "labels")

    @property
    def annotations(self) -> Properties:
        """Annotations of the pods."""
        return section(self.template, "metadata", "annotations")

    @property
    def spec(self) -> Properties:
        """Spec of the pods."""
        return section(self.template, "spec")

    def containers(self) -> Iterator[tuple[str, Properties]]:
        """Yield (path, container), init containers first."""
        for group in ("initContainers", "containers"):
            for index, container in enumerate(entries(self.spec, group)):
                yield self.at(f"spec.{group}[{index}]"), cast(Properties, container)

    def at(self, path: str) -> str:
        """Return the message form of a path below the template."""
        return f"{self.path}.{path}" if self.path else path


def _template_paths(resource: Resource) -> Iterator[tuple[str | int, ...]]:
    yield from _TEMPLATE_PATHS.get(resource.kind, ())
    items = _LISTS.get(resource.kind, ())
    for index, _ in enumerate(entries(resource.props, *items) if items else ()):
        yield (*items, index, "template")


def _written(path: tuple[str | int, ...]) -> str:
    """Return a path as messages write it: `spec.workerGroupSpecs[0].template`."""
    words = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(words).removeprefix(".")


def pods(resource: Resource) -> list[PodTemplate]:
    """Return the pod templates of a workload.

    A workload without one yields an empty template, so that rules about pods report its missing
    containers.
    """
    return [
        PodTemplate(_written(path), section(resource.props, *path))
        for path in _template_paths(resource)
        if not (path and path[-1] in _OPTIONAL) or at(resource.props, *path) is not None
    ]


def kept_pods(resource: Resource) -> list[PodTemplate]:
    """Return the pods of the workloads that a ConfigMap contains as JSON.

    Its program creates them later: the training jobs of personalized images.
    """
    component = at(resource.props, "metadata", "labels", "app.kubernetes.io/component")
    if resource.kind != "ConfigMap" or component not in _KEEPERS:
        return []
    found: list[PodTemplate] = []
    for name, text in section(resource.props, "data").items():
        if not isinstance(text, str):
            continue  # no API server accepts it
        try:
            found += _kept(f"data[{name}]", json.loads(text))
        except ValueError:
            continue  # no JSON: its program creates nothing from it
    return found


def _kept(path: str, value: Any) -> Iterator[PodTemplate]:
    kind = at(value, "kind")
    if isinstance(kind, str) and at(value, "apiVersion") is not None and kind in _TEMPLATE_PATHS:
        for each in pods(Resource(f"kubernetes::{kind}", "", "", value)):
            yield PodTemplate(f"{path}.{each.path}".removesuffix("."), each.template)
    elif isinstance(value, Mapping):
        for name, inner in cast(Properties, value).items():
            yield from _kept(f"{path}.{name}", inner)
    else:
        for index, inner in enumerate(entries(value)):
            yield from _kept(f"{path}[{index}]", inner)


def chips(container: Properties) -> dict[str, str]:
    """Return the accelerators in a container's limits or requests, by resource name."""
    found: dict[str, str] = {}
    for group in ("requests", "limits"):
        resources = section(container, "resources", group)
        for name in ACCELERATORS:
            if name in resources:
                found[name] = str(resources[name])
    return found


def words(container: Properties) -> list[str]:
    """Return a container's command and arguments, with a script split into words."""
    found = entries(container, "command") + entries(container, "args")
    return [word for each in found for word in str(each).split()]


def environment(container: Properties) -> dict[str, Any]:
    """Return a container's variables: the value, or the mapping that it is taken from."""
    found: dict[str, Any] = {}
    for entry in entries(container, "env"):
        source = at(entry, "valueFrom")
        found[str(at(entry, "name"))] = at(entry, "value") if source is None else source
    return found


def is_production(resource: Resource, config: Properties) -> bool:
    """Return whether a resource is in production, by its label `env` or the stack.

    Args:
        resource: a Google Cloud resource.
        config: `productionEnvironments`: names of environments that count.
    """
    names = [str(name) for name in entries(config, "productionEnvironments") or PRODUCTION]
    label = at(resource.props, "resourceLabels", "env") or at(resource.props, "labels", "env")
    return str(label or resource.stack) in names


PRODUCTION = ["prod", "production"]
PRODUCTION_CONFIG: dict[str, dict[str, Any]] = {
    "productionEnvironments": {
        "type": "array",
        "items": {"type": "string"},
        "default": PRODUCTION,
        "description": "Environments treated as production.",
    }
}
