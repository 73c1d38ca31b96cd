"""Services, InferencePools, probes and engines use the same port."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.backends import pods_behind
from policies.objects.engines import engine
from policies.objects.index import Obj
from policies.objects.pods import Container, PodOf
from policies.objects.world import World

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def _check(world: World) -> Iterator[Finding]:
    for pool in world.of("InferencePool"):
        legacy = pool.at("spec", "targetPortNumber")
        numbers = [at(each, "number") for each in entries(pool.body, "spec", "targetPorts")]
        for number in [*numbers, *([legacy] if legacy is not None else [])]:
            yield from _reached(pool, "spec.targetPorts", number, pods_behind(world, pool))
    for service in world.of("Service"):
        behind = pods_behind(world, service)
        for index, port in enumerate(entries(service.body, "spec", "ports")):
            target = at(port, "targetPort")
            target = at(port, "port") if target is None else target
            yield from _reached(service, f"spec.ports[{index}].targetPort", target, behind)
    for container in world.containers:
        yield from _own(container)


def _reached(obj: Obj, field: str, port: object, pods: list[PodOf]) -> Iterator[Finding]:
    for pod in pods:
        numbers, names = _ports(pod)
        if not numbers or port in numbers or port in names:
            continue
        yield broken(
            obj,
            field,
            port,
            f"{pod.obj.title} listens on {', '.join(map(str, sorted(numbers)))}",
            "use a port that the pods listen on",
        )


def _ports(pod: PodOf) -> tuple[set[int], set[str]]:
    numbers: set[int] = set()
    names: set[str] = set()
    for container in pod.containers:
        server = engine(container)
        numbers |= set(container.ports) | ({server.port} if server else set())
        names |= {name for name in container.ports.values() if name}
    return numbers, names


def _own(container: Container) -> Iterator[Finding]:
    server = engine(container)
    pod = container.pod
    # containers of a pod share one network: another one may have declared the port
    declared = {number for each in pod.containers for number in each.ports}
    if server is not None and container.ports and server.port not in declared:
        yield broken(
            pod.obj,
            f"{container.path}.ports",
            ", ".join(map(str, container.ports)),
            f"the engine listens on {server.port}",
            f"write containerPort: {server.port}",
        )
    numbers, names = _ports(pod)
    for probe in _PROBES:
        for kind in ("httpGet", "tcpSocket", "grpc"):
            port = at(container.body, probe, kind, "port")
            if port is None or not numbers or port in numbers or port in names:
                continue
            if server is None and not container.ports:
                yield unknown(
                    pod.obj,
                    f"{container.path}.{probe}.{kind}.port",
                    port,
                    "the container does not declare the ports that it listens on",
                    "declare its ports",
                )
            else:
                yield broken(
                    pod.obj,
                    f"{container.path}.{probe}.{kind}.port",
                    port,
                    f"the pod listens on {', '.join(map(str, sorted(numbers)))}",
                    "use a port that it listens on",
                )


RULE = Invariant(
    name="ports-agree",
    description="Pools, Services and probes use ports that the engine and its pod listen on.",
    reference="manually maintained in published manifests; gateway-api-inference-extension #476",
    check=_check,
)
