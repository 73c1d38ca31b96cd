"""Pods that use a node's accelerator without asking for it keep off each other's nodes."""

from collections.abc import Iterator

from policies.invariants.engines import Engine, engines, resource_of
from policies.invariants.finding import Finding, Invariant, broken
from policies.invariants.world import PodOf, World
from policies.reading import at, entries

_HOST = "kubernetes.io/hostname"
_WANTS = ("nvidia.com/gpu", "google.com/tpu")


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
            "uses accelerators that it asks for in no resource: two pods may share a node's chips",
            f"require pod anti-affinity over {_HOST}, or ask for the resource",
        )


def _takes(server: Engine) -> bool:
    """Say whether a container reaches for a device: it is privileged and asks for none."""
    container = server.container
    return resource_of(container) is None and (
        at(container.body, "securityContext", "privileged") is True
    )


def _apart(pod: PodOf) -> bool:
    terms = entries(
        pod.spec, "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return any(at(term, "topologyKey") == _HOST for term in terms)


INVARIANT = Invariant(
    name="one-pod-a-node",
    holds="Pods that use accelerators without asking for them require a node of their own.",
    source="ai-on-gke vLLM fungibility tutorial: privileged containers without a resource",
    check=_check,
)
