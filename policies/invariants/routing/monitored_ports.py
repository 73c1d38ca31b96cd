"""Scraped ports are ports of the pods."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries, section
from policies.framework.rule import Invariant
from policies.objects.engines import engine
from policies.objects.pods import PodOf
from policies.objects.world import World


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
                        f"{pod.obj.title} has no such port: scraping silently finds nothing",
                        "use the name or number of a containerPort",
                    )


def _has(pod: PodOf, port: object) -> bool:
    for container in pod.containers:
        server = engine(container)
        if port in container.ports or port in container.ports.values():
            return True
        if server is not None and port == server.port:
            return True
    return False


RULE = Invariant(
    name="monitored-ports",
    description="PodMonitorings use ports that the selected pods expose.",
    reference="Managed Prometheus: targets without the port are dropped",
    check=_check,
)
