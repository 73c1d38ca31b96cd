"""Objects of the gateway tests."""

from typing import Any


def service(name: str, selector: dict[str, str], port: int) -> dict[str, Any]:
    """Return a Service."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, "ports": [{"port": port}]},
    }


def gateway(name: str, address: str, port: int) -> list[dict[str, Any]]:
    """Return a Gateway and the extension that sends its requests to the body router."""
    return [
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "gatewayClassName": "gke-l7-regional-external-managed",
                "addresses": [{"type": "IPAddress", "value": address}],
                "listeners": [{"name": "http", "protocol": "HTTP", "port": port}],
            },
        },
        {
            "apiVersion": "networking.gke.io/v1",
            "kind": "GCPRoutingExtension",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "targetRefs": [
                    {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name}
                ],
                "extensionChains": [
                    {
                        "name": "models",
                        "extensions": [
                            {
                                "name": "body-router",
                                "authority": "models.example.com",
                                "timeout": "1s",
                                "supportedEvents": [
                                    "RequestHeaders",
                                    "RequestBody",
                                    "RequestTrailers",
                                ],
                                "requestBodySendMode": "FullDuplexStreamed",
                                "backendRef": {
                                    "group": "",
                                    "kind": "Service",
                                    "name": "bbr",
                                    "port": 9004,
                                },
                            }
                        ],
                    }
                ],
            },
        },
    ]


def model_rules(models: dict[str, str]) -> list[dict[str, Any]]:
    """Return rules that send each model name to a pool, at most 64 matches a rule."""
    rules: list[dict[str, Any]] = []
    for pool in dict.fromkeys(models.values()):
        names = [name for name, target in models.items() if target == pool]
        for start in range(0, len(names), 64):
            matches = [
                {"headers": [{"name": "X-Gateway-Model-Name", "value": name}]}
                for name in names[start : start + 64]
            ]
            rules.append({"matches": matches, "backendRefs": [pool_ref(pool)]})
    return rules


def pool_ref(name: str, weight: int = 1) -> dict[str, Any]:
    """Return a backend reference to a pool."""
    return {
        "group": "inference.networking.k8s.io",
        "kind": "InferencePool",
        "name": name,
        "weight": weight,
    }


def route(name: str, parent: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an HTTPRoute."""
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"parentRefs": [{"name": parent}], "rules": rules},
    }


def pool(name: str, picker: str, failure_mode: str = "FailClose") -> dict[str, Any]:
    """Return an InferencePool of the pods labelled `model: NAME`."""
    return {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"model": name}},
            "targetPorts": [{"number": 8000}],
            "endpointPickerRef": {
                "name": picker,
                "port": {"number": 9002},
                "failureMode": failure_mode,
            },
        },
    }


def _of_pool(kind: str, name: str, default: dict[str, Any]) -> dict[str, Any]:
    target = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": name}
    return {
        "apiVersion": "networking.gke.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"targetRef": target, "default": default},
    }


def health_check(name: str) -> dict[str, Any]:
    """Return the HealthCheckPolicy of a pool."""
    check = {"type": "HTTP", "httpHealthCheck": {"requestPath": "/health", "port": 8000}}
    return _of_pool(
        "HealthCheckPolicy", name, {"checkIntervalSec": 1, "timeoutSec": 1, "config": check}
    )


def picker_check(name: str) -> dict[str, Any]:
    """Return the HealthCheckPolicy of a picker's Service: a connection each second."""
    connects = {"type": "TCP", "tcpHealthCheck": {"portSpecification": "USE_SERVING_PORT"}}
    check = {"checkIntervalSec": 1, "timeoutSec": 1, "config": connects}
    policy = _of_pool("HealthCheckPolicy", name, check)
    policy["spec"]["targetRef"] = {"group": "", "kind": "Service", "name": name}
    return policy


def time_limit(name: str, seconds: int) -> dict[str, Any]:
    """Return the GCPBackendPolicy that gives a pool a timeout."""
    return _of_pool("GCPBackendPolicy", name, {"timeoutSec": seconds})
