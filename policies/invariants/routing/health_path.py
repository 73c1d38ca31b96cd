"""Health checks use the port and path at which the server answers."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at
from policies.framework.rule import Invariant
from policies.objects.backends import pods_behind
from policies.objects.engines import Engine, engine, leads
from policies.objects.index import Obj
from policies.objects.pods import PodOf
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for policy in world.of("HealthCheckPolicy"):
        target = world.find(
            str(policy.at("spec", "targetRef", "kind")),
            policy.namespace,
            str(policy.at("spec", "targetRef", "name")),
        )
        if target is not None:
            for pod in pods_behind(world, target):
                yield from _findings(policy, pod)


def _findings(policy: Obj, pod: PodOf) -> Iterator[Finding]:
    config = at(policy.body, "spec", "default", "config")
    field = "spec.default.config"
    for name in ("httpHealthCheck", "grpcHealthCheck", "tcpHealthCheck", "httpsHealthCheck"):
        check = at(config, name)
        if check is None:
            continue
        port, path = at(check, "port"), at(check, "requestPath")
        if port is not None and not _listens(pod, int(port)):
            yield broken(
                policy,
                f"{field}.{name}.port",
                port,
                f"{pod.obj.title} does not listen on it",
                "use the serving port",
            )
        for container in pod.containers:
            server = engine(container)
            if path and server and not _answers(server, str(path)):
                yield broken(
                    policy,
                    f"{field}.{name}.requestPath",
                    path,
                    f"{server.kind} serves its health check at {server.health_paths[0]}",
                    f"write {server.health_paths[0]}",
                )


def _answers(server: Engine, path: str) -> bool:
    return path in (server.health_paths or (path,)) or not leads(server.container.pod)


def _listens(pod: PodOf, port: int) -> bool:
    ports = {number for container in pod.containers for number in container.ports}
    ports |= {server.port for each in pod.containers if (server := engine(each)) is not None}
    return not ports or port in ports


RULE = Invariant(
    name="health-checks-answer",
    description="Load balancer health checks use a port and path that the server answers.",
    reference="gateway-api-inference-extension #476, #1591: gateway not programmed",
    check=_check,
)
