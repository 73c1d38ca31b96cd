"""Pods that objects create, and their containers."""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

from policies.framework.reading import COMPUTE_CLASS_LABEL, PodTemplate, at, entries, section
from policies.framework.resources import Properties
from policies.objects.command_line import CommandLine, command_line
from policies.objects.index import Obj, Objects


@dataclass(frozen=True)
class Container:
    """One container of a pod."""

    pod: "PodOf"
    path: str
    body: Properties
    is_init: bool

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body.get("name", ""))

    @property
    def image(self) -> str:
        """Its image reference."""
        return str(self.body.get("image", ""))

    @cached_property
    def environment(self) -> dict[str, str | None]:
        """Environment variables, None for values that are in no object."""
        world, namespace = self.pod.world, self.pod.obj.namespace
        found: dict[str, str | None] = {}
        for entry in entries(self.body, "envFrom"):
            name = at(entry, "configMapRef", "name")
            held = world.find("ConfigMap", namespace, str(name)) if name else None
            if held is not None:
                found |= {str(key): str(each) for key, each in section(held.body, "data").items()}
        for entry in entries(self.body, "env"):
            name, value = str(at(entry, "name")), at(entry, "value")
            if value is None and at(entry, "valueFrom") is not None:
                found[name] = _taken_from(world, namespace, section(entry, "valueFrom"))
            else:
                found[name] = "" if value is None else str(value)
        return found

    @cached_property
    def line(self) -> CommandLine:
        """Command and arguments."""
        words = [str(word) for word in entries(self.body, "command") + entries(self.body, "args")]
        return command_line(words, self.environment)

    def amount(self, resource: str) -> int | None:
        """Return the requested amount of an extended resource, or None."""
        for group in ("requests", "limits"):
            value = at(self.body, "resources", group, resource)
            if value is not None and str(value).isdigit():
                return int(value)
        return None

    @property
    def mounts(self) -> list[Properties]:
        """Its volume mounts."""
        return [cast(Properties, mount) for mount in entries(self.body, "volumeMounts")]

    def mount_of(self, path: str) -> Properties | None:
        """Return the mount that contains a path, the most specific one."""
        holding = [
            mount
            for mount in self.mounts
            if path == (root := str(mount.get("mountPath", "")).rstrip("/"))
            or path.startswith(f"{root}/")
        ]
        return max(holding, key=lambda mount: len(str(mount["mountPath"])), default=None)

    @property
    def ports(self) -> dict[int, str]:
        """Declared container ports: number to name."""
        return {
            int(at(port, "containerPort")): str(at(port, "name") or "")
            for port in entries(self.body, "ports")
            if at(port, "containerPort") is not None
        }


@dataclass(frozen=True)
class PodOf:
    """The pods that an object creates."""

    world: Objects
    obj: Obj
    template: PodTemplate
    role: str = ""
    """`leader` or `worker` in a LeaderWorkerSet or a RayCluster."""

    @property
    def spec(self) -> Properties:
        """Spec of the pods."""
        return self.template.spec

    @property
    def labels(self) -> Properties:
        """Labels of the pods."""
        return self.template.labels

    def at(self, path: str) -> str:
        """Return the message form of a path below the template."""
        return self.template.at(path)

    @cached_property
    def containers(self) -> list[Container]:
        """Its containers, init containers first."""
        return [
            Container(self, path, body, ".initContainers[" in f".{path}")
            for path, body in self.template.containers()
        ]

    @property
    def volumes(self) -> dict[str, Properties]:
        """Volumes by name."""
        return {str(at(each, "name")): each for each in entries(self.spec, "volumes")}

    @property
    def replicas(self) -> int:
        """Initial number of replicas."""
        value = self.obj.at("spec", "replicas")
        return int(value) if isinstance(value, int | float) else 1

    @property
    def hosts(self) -> int:
        """Pods per replica: the size of a LeaderWorkerSet group or RayCluster, otherwise 1."""
        if self.obj.kind == "RayCluster":
            value = self.obj.at("spec", "workerGroupSpecs", 0, "replicas")
            return 1 + (int(value) if isinstance(value, int | float) else 0)
        value = self.obj.at("spec", "leaderWorkerTemplate", "size")
        return int(value) if isinstance(value, int | float) else 1

    @property
    def compute_class(self) -> str | None:
        """Compute class that the pods select, directly or through their namespace's default."""
        chosen = at(self.spec, "nodeSelector", COMPUTE_CLASS_LABEL)
        if chosen is None:
            chosen = next(iter(self.affinity_values(COMPUTE_CLASS_LABEL)), None)
        if chosen is None and (home := self.world.find("Namespace", "", self.obj.namespace)):
            chosen = home.at("metadata", "labels", "cloud.google.com/default-compute-class")
        return None if chosen is None else str(chosen)

    def affinity_values(self, key: str) -> list[str]:
        """Return the values that required node affinity allows for a label."""
        terms = entries(
            self.spec,
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "nodeSelectorTerms",
        )
        return [
            str(value)
            for term in terms
            for each in entries(term, "matchExpressions")
            if at(each, "key") == key and at(each, "operator") == "In"
            for value in entries(each, "values")
        ]

    def node_label(self, key: str) -> str | None:
        """Return the required node label value, if there is exactly one."""
        value = at(self.spec, "nodeSelector", key)
        values = [str(value)] if value is not None else self.affinity_values(key)
        return values[0] if len(values) == 1 else None

    def tolerates(self, key: str, value: str, effect: str = "NoSchedule") -> bool:
        """Return whether the pods tolerate a taint."""
        for each in entries(self.spec, "tolerations"):
            if at(each, "effect") not in (None, "", effect):
                continue
            if at(each, "key") in (None, "") and at(each, "operator") == "Exists":
                return True
            if at(each, "key") == key and (
                at(each, "operator") == "Exists" or str(at(each, "value")) == value
            ):
                return True
        return False


def _taken_from(world: Objects, namespace: str, source: Properties) -> str | None:
    reference = section(source, "configMapKeyRef")
    if not reference:
        return None
    held = world.find("ConfigMap", namespace, str(reference.get("name")))
    value = None if held is None else held.at("data", str(reference.get("key")))
    return None if value is None else str(value)
