"""What is scraped is a port of the pods."""

from collections.abc import Iterator

from policies.invariants.engines import engine
from policies.invariants.finding import Finding, Invariant, broken
from policies.invariants.world import PodOf, World
from policies.reading import at, entries, section


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("PodMonitoring", "ClusterPodMonitoring"):
        selector = section(each.body, "spec", "selector")
        for pod in world.selected(each.namespace, selector):
            for index, endpoint in enumerate(entries(each.body, "spec", "endpoints")):
                port = at(endpoint, "port")
                if port is not None and not _has(pod, port):
                    yield broken(
                        each,
                        f"spec.endpoints[{index}].port",
                        port,
                        f"{pod.obj.title} has no such port: nothing is scraped, in silence",
                        "write the name or number of a containerPort",
                    )


def _has(pod: PodOf, port: object) -> bool:
    for container in pod.containers:
        server = engine(container)
        if port in container.ports or port in container.ports.values():
            return True
        if server is not None and port == server.port:
            return True
    return False


INVARIANT = Invariant(
    name="monitored-ports",
    holds="PodMonitorings name ports that the selected pods have.",
    source="Managed Prometheus: targets without the port are dropped",
    check=_check,
)
