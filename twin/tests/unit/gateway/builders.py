"""Objects of gateway tests, each with as little as it needs."""

from typing import Any

from twin.cluster.gateway.translation.objects import CONTROLLER, Snapshot

CLASS = "gke-l7-regional-external-managed"
GATEWAY_API = "gateway.networking.k8s.io"
POOL_API = "inference.networking.k8s.io"


def obj(kind: str, name: str, namespace: str = "ns", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"{kind}-{name}"}
    metadata |= fields.pop("metadata", {})
    return {"kind": kind, "metadata": metadata, **fields}


def gateway_class(name: str = CLASS) -> dict[str, Any]:
    spec = {"controllerName": CONTROLLER}
    return {"kind": "GatewayClass", "metadata": {"name": name, "uid": name}, "spec": spec}


def gateway(name: str = "gw", *, namespace: str = "ns", **spec: Any) -> dict[str, Any]:
    listeners = [{"name": "http", "protocol": "HTTP", "port": 8080}]
    full = {"gatewayClassName": CLASS, "listeners": listeners, **spec}
    return obj("Gateway", name, namespace, spec=full)


def route(name: str, *rules: dict[str, Any], namespace: str = "ns", **spec: Any) -> dict[str, Any]:
    metadata = spec.pop("metadata", {})
    full = {"parentRefs": [{"name": "gw", "namespace": "ns"}], "rules": list(rules), **spec}
    return obj("HTTPRoute", name, namespace, spec=full, metadata=metadata)


def rule(*backends: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"backendRefs": list(backends), **fields}


def to_pool(name: str, **fields: Any) -> dict[str, Any]:
    return {"group": POOL_API, "kind": "InferencePool", "name": name, **fields}


def to_service(name: str, port: int = 80, **fields: Any) -> dict[str, Any]:
    return {"name": name, "port": port, **fields}


def pool(name: str, failure_mode: str = "FailClose", namespace: str = "ns") -> dict[str, Any]:
    spec = {
        "selector": {"matchLabels": {"model": name}},
        "targetPorts": [{"number": 8000}],
        "endpointPickerRef": {
            "name": f"{name}-epp",
            "port": {"number": 9002},
            "failureMode": failure_mode,
        },
    }
    return obj("InferencePool", name, namespace, spec=spec)


def service(
    name: str, port: int = 80, namespace: str = "ns", target: Any = None, **fields: Any
) -> dict[str, Any]:
    entry = {"port": port, **fields}
    if target is not None:
        entry["targetPort"] = target
    return obj("Service", name, namespace, spec={"selector": {"app": name}, "ports": [entry]})


def pod(
    name: str, address: str, labels: dict[str, str], *, ready: bool = True, namespace: str = "ns"
) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return obj(
        "Pod",
        name,
        namespace,
        metadata={"labels": labels},
        spec={"containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 8081}]}]},
        status={"podIP": address, "conditions": [condition]},
    )


def model(name: str, replicas: int = 2, failure_mode: str = "FailClose") -> list[dict[str, Any]]:
    """A pool with its pods, and its picker with Service and pod."""
    block = 10 + sum(name.encode()) % 100
    return [
        pool(name, failure_mode),
        service(f"{name}-epp", 9002),
        pod(f"{name}-epp", f"127.64.{block}.200", {"app": f"{name}-epp"}),
        *(pod(f"{name}-{n}", f"127.64.{block}.{n + 1}", {"model": name}) for n in range(replicas)),
    ]


def policy(kind: str, name: str, target: dict[str, Any], **default: Any) -> dict[str, Any]:
    metadata = default.pop("metadata", {})
    spec = {"targetRef": target, "default": default}
    return obj(kind, name, spec=spec, metadata=metadata)


def body_router(**extension: Any) -> list[dict[str, Any]]:
    """The body router: extension, Service and pod."""
    entry = {
        "name": "bbr",
        "authority": "models.example.com",
        "timeout": "1s",
        "supportedEvents": ["RequestHeaders", "RequestBody", "RequestTrailers"],
        "requestBodySendMode": "FullDuplexStreamed",
        "backendRef": {"group": "", "kind": "Service", "name": "bbr", "port": 9004},
        **extension,
    }
    return [
        obj(
            "GCPRoutingExtension",
            "bbr",
            spec={
                "targetRefs": [{"group": GATEWAY_API, "kind": "Gateway", "name": "gw"}],
                "extensionChains": [{"name": "chain", "extensions": [entry]}],
            },
        ),
        service("bbr", 9004),
        pod("bbr", "127.64.9.9", {"app": "bbr"}),
    ]


def traffic_extension(condition: str | None = None, **extension: Any) -> list[dict[str, Any]]:
    """A callout: extension, Service and pod."""
    entry = {
        "name": "guard",
        "authority": "guard.example.com",
        "timeout": "500ms",
        "supportedEvents": ["RequestHeaders", "ResponseHeaders", "ResponseBody"],
        "backendRef": {"group": "", "kind": "Service", "name": "guard", "port": 9010},
        **extension,
    }
    chain: dict[str, Any] = {"name": "chain", "extensions": [entry]}
    if condition is not None:
        chain["matchCondition"] = {"celExpressions": [{"celMatcher": condition}]}
    target = {"group": GATEWAY_API, "kind": "Gateway", "name": "gw"}
    spec = {"targetRefs": [target], "extensionChains": [chain]}
    return [
        obj("GCPTrafficExtension", "guard", spec=spec),
        service("guard", 9010),
        pod("guard", "127.64.9.10", {"app": "guard"}),
    ]


def snapshot(*objects: dict[str, Any], **lookups: Any) -> Snapshot:
    return Snapshot.of([gateway_class(), *objects], **lookups)


def conditions(translation: Any, kind: str, name: str, namespace: str = "ns") -> dict[str, str]:
    """Type to reason of an object's conditions, `!` before those that are false."""
    found = next(
        u.status for u in translation.statuses if (u.kind, u.key) == (kind, (namespace, name))
    )
    entries = found.get("parents") or found.get("ancestors") or [found]
    return {
        c["type"]: c["reason"] if c["status"] == "True" else f"!{c['reason']}"
        for c in entries[0]["conditions"]
    }
