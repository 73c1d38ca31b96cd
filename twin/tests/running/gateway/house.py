"""A gateway with routing and traffic extensions, pickers and engines, without a control plane."""

import http.client
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twin.cluster.gateway.envoy.dataplane import DataPlane
from twin.cluster.gateway.translation.objects import INTERNAL_CLASS
from twin.cluster.gateway.translation.translate import translate
from twin.tests.eventually import eventually
from twin.tests.running.gateway.engines import Engines
from twin.tests.running.gateway.processors import (
    Processor,
    event_of,
    go_on,
    pass_on,
    send_body,
)
from twin.tests.unit.gateway.builders import (
    GATEWAY_API,
    body_router,
    gateway,
    gateway_class,
    obj,
    pod,
    pool,
    route,
    rule,
    service,
    snapshot,
    to_pool,
)
from twin.toolchain import tool

BLOCK = os.getpid() % 250
ADDRESS, PORT = f"127.33.{BLOCK}.1", 18081
ENGINES = {"m": f"127.49.{BLOCK}.1", "n": f"127.49.{BLOCK}.2"}
REQUEST = ["RequestHeaders", "RequestBody", "RequestTrailers"]
RESPONSE = ["ResponseHeaders", "ResponseBody", "ResponseTrailers"]
H2C = {"appProtocol": "kubernetes.io/h2c"}


def called(name: str, **fields: Any) -> dict[str, Any]:
    """An extension that calls a Service of its name, for request headers."""
    ref = {"group": "", "kind": "Service", "name": name, "port": 9010}
    wanted = {"supportedEvents": ["RequestHeaders"], "timeout": "1s", "authority": f"{name}.test"}
    return {"name": name, "backendRef": ref, **wanted, **fields}


def chain(name: str, *extensions: dict[str, Any], when: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "extensions": list(extensions)}
    if when is not None:
        found["matchCondition"] = {"celExpressions": [{"celMatcher": when}]}
    return found


def traffic(*chains: dict[str, Any]) -> dict[str, Any]:
    target = {"group": GATEWAY_API, "kind": "Gateway", "name": "gw"}
    spec = {"targetRefs": [target], "extensionChains": list(chains)}
    return obj("GCPTrafficExtension", "guard", spec=spec)


class House:
    """A gateway with two pools, a routing extension, pickers, and two traffic extensions."""

    def __init__(self, folder: Path) -> None:
        self.log: list[str] = []
        self.region = ""
        self.filters: list[dict[str, Any]] = []
        """Filters of every route."""
        self.google_api: Callable[[str], tuple[str, int] | None] = lambda _: None
        self.apigee: Callable[[], tuple[str, int] | None] = lambda: None
        self.engines = Engines()
        for address in ENGINES.values():
            self.engines.serve(address)
        self.router = self._processor("router", 3)
        self.picker = self._processor("picker", 4)
        self.guard = self._processor("guard", 5)
        self.second = self._processor("second", 6)
        self.programs = [self.router, self.picker, self.guard, self.second]
        self.plane = DataPlane(folder, "ns", "gw", tool("envoy"))

    def _processor(self, name: str, last: int) -> Processor:
        return Processor(name, f"127.49.{BLOCK}.{last}", 9010, self.log)

    def program(self, *extensions: dict[str, Any], **gateway_fields: Any) -> None:
        """Give Envoy a gateway with these extensions and wait until it serves it."""
        asked = gateway(
            addresses=[{"type": "IPAddress", "value": ADDRESS}],
            listeners=[{"name": "http", "protocol": "HTTP", "port": PORT}],
            **gateway_fields,
        )
        objects: list[dict[str, Any]] = [asked, *extensions, gateway_class(INTERNAL_CLASS)]
        router_ref = {"group": "", "kind": "Service", "name": "router", "port": 9010}
        objects += body_router(backendRef=router_ref)[:1]
        for program in self.programs:
            objects += [
                service(program.name, 9010, **H2C),
                pod(program.name, program.address, {"app": program.name}),
            ]
        for name, address in ENGINES.items():
            own = pool(name)
            own["spec"]["endpointPickerRef"] = {"name": "picker", "port": {"number": 9010}}
            match = {"headers": [{"name": "x-gateway-model-name", "value": name}]}
            objects += [
                own,
                pod(name, address, {"model": name}),
                route(name, rule(to_pool(name), matches=[match], filters=self.filters)),
            ]
        check = {"type": "HTTP", "httpHealthCheck": {"requestPath": "/health"}}
        for name in ENGINES:
            target = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": name}
            default = {"checkIntervalSec": 1, "config": check}
            spec = {"targetRef": target, "default": default}
            objects.append(obj("HealthCheckPolicy", name, spec=spec))
        lookups = {"google_api": self.google_api, "apigee": self.apigee}
        found = translate(snapshot(*objects, **lookups, region=self.region))
        assert self.plane.apply(found.gateways["ns", "gw"]) is None
        eventually(self._serves, 10)
        for program in self.programs:
            program.forget()
        self.router.answers, self.picker.answers = route_by_body, pick("m")
        self.log.clear()
        self.engines.seen.clear()
        self.engines.headers.clear()

    def _serves(self) -> bool:
        """Return whether Envoy has taken the last listener and every endpoint is healthy."""
        written = json.loads((self.plane.folder / "lds.json").read_text())["version_info"]
        dump = json.loads(self.plane.process.ask("/config_dump?resource=dynamic_listeners"))
        taken = self.plane.process.ask("/stats?filter=lds.version_text")
        if written not in taken or "warming_state" in dump["configs"][0]:
            return False
        answer = json.loads(self.plane.process.ask("/clusters?format=json"))
        hosts = [
            host["health_status"]
            for cluster in answer["cluster_statuses"]
            for host in cluster.get("host_statuses", [])
        ]
        return len(hosts) >= 5 and all(each == {"eds_health_status": "HEALTHY"} for each in hosts)

    def close(self) -> None:
        """End everything."""
        self.plane.process.stop()
        for program in self.programs:
            program.stop()
        self.engines.close()


def route_by_body(request: Any, memory: dict[str, Any]) -> list[Any]:
    """Name the model of the body in a header, as the body router does."""
    event = event_of(request)
    if event == "request_headers":
        return []
    if event != "request_body":
        return pass_on(request, memory)
    memory["body"] = memory.get("body", b"") + request.request_body.body
    if not request.request_body.end_of_stream:
        return []
    body = memory["body"]
    changes = {"x-gateway-model-name": json.loads(body)["model"]}
    starts = range(0, len(body), 64_000)
    pieces = [
        send_body("request_body", body[at : at + 64_000], end=at == starts[-1]) for at in starts
    ]
    return [go_on("request_headers", changes, clear_route=True), *pieces]


def pick(name: str) -> Any:
    """Choose the engine of a model."""

    def answers(request: Any, memory: dict[str, Any]) -> list[Any]:
        if event_of(request) != "request_headers":
            return pass_on(request, memory)
        endpoint = f"{ENGINES[name]}:8000"
        return [go_on("request_headers", {"x-gateway-destination-endpoint": endpoint})]

    return answers


def ask(model: str = "m", headers: dict[str, str] | None = None, **fields: Any) -> SimpleNamespace:
    """Send one request and return its status, headers and body."""
    connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=20)
    try:
        body = json.dumps({"model": model, **fields})
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request("POST", "/v1/completions?a=b", body, sent)
        answer = connection.getresponse()
        return SimpleNamespace(
            status=answer.status, headers=dict(answer.getheaders()), text=answer.read().decode()
        )
    finally:
        connection.close()
