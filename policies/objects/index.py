"""The objects of one cluster, indexed by kind and name."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from policies.framework.reading import at, section
from policies.framework.resources import Properties, Resource

_DEFAULT_NAMESPACE = "default"
_CLUSTER_WIDE = frozenset(
    ["ComputeClass", "Namespace", "PersistentVolume", "PriorityClass", "StorageClass"]
)


@dataclass(frozen=True)
class Obj:
    """One Kubernetes object."""

    body: Properties
    file: str

    @cached_property
    def kind(self) -> str:
        """Its kind."""
        return str(self.body["kind"])

    @cached_property
    def group(self) -> str:
        """Its API group, empty for the core group."""
        return str(self.body["apiVersion"]).rpartition("/")[0]

    @cached_property
    def name(self) -> str:
        """Its name."""
        metadata = section(self.body, "metadata")
        return str(metadata.get("name") or metadata.get("generateName") or "")

    @cached_property
    def namespace(self) -> str:
        """Its namespace, empty for cluster-scoped kinds."""
        if self.kind in _CLUSTER_WIDE:
            return ""
        return str(at(self.body, "metadata", "namespace") or _DEFAULT_NAMESPACE)

    @cached_property
    def title(self) -> str:
        """`Kind namespace/name`."""
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"

    @property
    def identity(self) -> str:
        """Its identity in a finding."""
        return self.title

    def at(self, *path: str | int) -> Any:
        """Return the value at a path, or None."""
        return at(self.body, *path)

    @cached_property
    def resource(self) -> Resource:
        """The object as a resource for policy rules."""
        kind = f"kubernetes:{self.body['apiVersion']}:{self.kind}"
        return Resource(kind, self.name, self.title, self.body, self.file)


@dataclass(frozen=True)
class Objects:
    """All objects of one cluster, indexed by kind and name."""

    name: str
    objects: tuple[Obj, ...]
    resources: tuple[dict[str, Any], ...] | None = None
    """Pulumi resources in addition to the objects, or None if only objects were read."""
    _by_key: dict[tuple[str, str, str], Obj] = field(
        default_factory=dict[tuple[str, str, str], Obj]
    )

    def __post_init__(self) -> None:
        """Index the objects."""
        for each in self.objects:
            self._by_key[each.kind, each.namespace, each.name] = each

    def of(self, *kinds: str) -> Iterator[Obj]:
        """Yield the objects of some kinds."""
        return (each for each in self.objects if each.kind in kinds)

    def find(self, kind: str, namespace: str, name: str) -> Obj | None:
        """Return one object, or None."""
        return self._by_key.get((kind, namespace, name))
