"""Reading properties that may be missing, and the pods inside Kubernetes objects."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from policies.framework.resources import Properties, Resource

CLUSTER = "gcp:container/cluster:Cluster"
BUCKET = "gcp:storage/bucket:Bucket"
NODE_POOL = "gcp:container/nodePool:NodePool"
STACK_REFERENCE = "pulumi:pulumi:StackReference"
"""What a stack has that takes a namespace and its rights from the stack of a platform."""
NOT_KNOWN = "(known after up)"
"""What `render` writes for a value that only the cloud knows."""
COMPUTE_CLASS_LABEL = "cloud.google.com/compute-class"
"""Label of nodes, and key of their taint, that pods choose a compute class by."""
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

_TEMPLATE_PATHS: dict[str, tuple[tuple[str, ...], ...]] = {
    "CronJob": (("spec", "jobTemplate", "spec", "template"),),
    "DaemonSet": (("spec", "template"),),
    "Deployment": (("spec", "template"),),
    "Job": (("spec", "template"),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
    "Pod": ((),),
    "ReplicaSet": (("spec", "template"),),
    "StatefulSet": (("spec", "template"),),
}
_OPTIONAL = frozenset(["leaderTemplate"])


def is_type(*types: str) -> Callable[[Resource], bool]:
    """Return the test whether a resource has one of these types."""
    return lambda resource: resource.type in types


def is_kubernetes(*kinds: str) -> Callable[[Resource], bool]:
    """Return the test whether a resource is a Kubernetes object of one of these kinds."""
    return lambda resource: resource.type.startswith("kubernetes:") and resource.kind in kinds


def is_workload(resource: Resource) -> bool:
    """Return whether a resource makes pods."""
    return resource.type.startswith("kubernetes:") and resource.kind in _TEMPLATE_PATHS


def at(value: Any, *path: str | int) -> Any:
    """Return what lies at a path, or None where something on the way is missing.

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
    """Return the mapping at a path, empty where there is none."""
    found = at(value, *path)
    return cast(Properties, found) if isinstance(found, Mapping) else {}


def entries(value: Any, *path: str | int) -> list[Any]:
    """Return the list at a path, empty where there is none."""
    found = at(value, *path)
    if isinstance(found, Sequence) and not isinstance(found, str | bytes):
        return list(cast(Sequence[Any], found))
    return []


@dataclass(frozen=True)
class PodTemplate:
    """The pods a workload makes."""

    path: str
    """Where the template lies, such as `spec.template`; for messages."""
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
        """Return a path below the template, as a message names it."""
        return f"{self.path}.{path}" if self.path else path


def pods(resource: Resource) -> list[PodTemplate]:
    """Return the pod templates of a workload.

    A workload without one yields an empty template, so that every rule about pods sees that it has
    no containers to look at.
    """
    return [
        PodTemplate(".".join(path), section(resource.props, *path))
        for path in _TEMPLATE_PATHS.get(resource.kind, ())
        if not (path and path[-1] in _OPTIONAL) or at(resource.props, *path) is not None
    ]


def chips(container: Properties) -> dict[str, str]:
    """Return the accelerators a container is limited to or asks for, by resource name."""
    found: dict[str, str] = {}
    for group in ("requests", "limits"):
        resources = section(container, "resources", group)
        for name in ACCELERATORS:
            if name in resources:
                found[name] = str(resources[name])
    return found


def words(container: Properties) -> list[str]:
    """Return a container's command and arguments, a script's words apart."""
    found = entries(container, "command") + entries(container, "args")
    return [word for each in found for word in str(each).split()]


def environment(container: Properties) -> dict[str, Any]:
    """Return a container's variables: the value, or the mapping it is taken from."""
    found: dict[str, Any] = {}
    for entry in entries(container, "env"):
        source = at(entry, "valueFrom")
        found[str(at(entry, "name"))] = at(entry, "value") if source is None else source
    return found


def is_production(resource: Resource, config: Properties) -> bool:
    """Return whether a resource belongs to production, by its label `env` or else by the stack.

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
        "description": "Environments that count as production.",
    }
}
