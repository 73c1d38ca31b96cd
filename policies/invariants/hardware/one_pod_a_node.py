"""Pods that use accelerators without requesting them never share a node."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.accelerators import resource_of
from policies.objects.engines import Engine, engines
from policies.objects.pods import PodOf
from policies.objects.world import World

_HOST = "kubernetes.io/hostname"


def _check(world: World) -> Iterator[Finding]:
    seen: set[str] = set()
    for server in engines(world):
        pod = server.container.pod
        if pod.obj.title in seen or not _takes(server) or _apart(pod):
            continue
        seen.add(pod.obj.title)
        yield broken(
            pod.obj,
            pod.at("spec.affinity.podAntiAffinity"),
            None,
            "uses accelerators without requesting them: two pods may share a node's chips",
            f"require pod anti-affinity over {_HOST}, or request the resource",
        )


def _takes(server: Engine) -> bool:
    """Return whether a container uses a device without requesting it: it is privileged."""
    container = server.container
    return resource_of(container) is None and (
        at(container.body, "securityContext", "privileged") is True
    )


def _apart(pod: PodOf) -> bool:
    terms = entries(
        pod.spec, "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return any(at(term, "topologyKey") == _HOST for term in terms)


RULE = Invariant(
    name="one-pod-a-node",
    description="Pods that use accelerators without requesting them require a node of their own.",
    reference="ai-on-gke vLLM fungibility tutorial: privileged containers without a resource",
    check=_check,
)
