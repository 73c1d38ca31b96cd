"""Objects of the Apigee Operator, as tests of the gateway use them."""

from typing import Any

from twin.tests.unit.gateway.builders import obj

GATE = "acme-gate"
GROUP = "apim.googleapis.com"


def backend(name: str = GATE) -> dict[str, Any]:
    return obj("ApigeeBackendService", name, spec={"apigeeEnv": "llm", "locations": []})


def product(name: str, approval: str = "auto", gate: str = GATE) -> dict[str, Any]:
    ref = {"group": GROUP, "kind": "ApigeeBackendService", "name": gate, "namespace": "ns"}
    return obj("APIProduct", name, spec={"approvalType": approval, "enforcementRefs": [ref]})


def operations(
    name: str, paths: list[str], *, limit: int = 3, interval: int = 1, unit: str = "minute"
) -> dict[str, Any]:
    """The operation set of the product with its name."""
    ref = {"group": GROUP, "kind": "APIProduct", "name": name, "namespace": "ns"}
    spec = {
        "apiProductRefs": [ref],
        "quota": {"limit": limit, "interval": interval, "timeUnit": unit},
        "restOperations": [{"name": path, "path": path, "methods": ["POST"]} for path in paths],
    }
    return obj("APIOperationSet", name, spec=spec)
