"""The objects of one cluster and their references."""

from functools import cached_property

from policies.framework.reading import at, entries, pods, section
from policies.framework.resources import Properties
from policies.objects.documents import Source
from policies.objects.index import Obj, Objects
from policies.objects.pods import Container, PodOf

_LEADERS = ("leaderTemplate", "headGroupSpec.template")
_WORKERS = ("workerTemplate", "].template")


class World(Objects):
    """All objects of one cluster, and their pods."""

    @cached_property
    def pods(self) -> list[PodOf]:
        """All pod templates, with the object that each belongs to."""
        found: list[PodOf] = []
        for each in self.objects:
            for template in pods(each.resource):
                role = "leader" if template.path.endswith(_LEADERS) else ""
                role = "worker" if template.path.endswith(_WORKERS) else role
                found.append(PodOf(self, each, template, role))
        return found

    @cached_property
    def containers(self) -> list[Container]:
        """All containers of all pod templates."""
        return [container for pod in self.pods for container in pod.containers]

    def selected(self, namespace: str, selector: Properties) -> list[PodOf]:
        """Return the pods in a namespace that a selector (labels or a LabelSelector) matches."""
        return [
            pod
            for pod in self.pods
            if pod.obj.namespace == namespace and matches(selector, pod.labels)
        ]


def matches(selector: Properties, labels: Properties) -> bool:
    """Return whether labels match a LabelSelector."""
    for key, value in section(selector, "matchLabels").items():
        if labels.get(key) != value:
            return False
    for each in entries(selector, "matchExpressions"):
        key, operator = str(at(each, "key")), at(each, "operator")
        has = key in labels
        listed = labels.get(key) in entries(each, "values")
        if not {"In": has and listed, "NotIn": not listed, "Exists": has}.get(operator, not has):
            return False
    return True


def world_of(source: Source) -> World:
    """Return the objects of one cluster, indexed."""
    objects = tuple(Obj(each.body, each.file) for each in source.documents)
    return World(source.name, objects, source.resources)
