"""The body-based router: reads `model` from a request body and writes it into a header.

A load balancer routes on headers, the OpenAI API names the model in the body. The router is an
external processor the load balancer calls first; it sets `X-Gateway-Model-Name` and the HTTPRoutes
match on that. It must run in the namespace of the Gateway.
Flags and ports: gateway-api-inference-extension v1.2.0, cmd/bbr and its body-based-routing chart.
"""

from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    Manifest,
    available,
    deployment,
    disruption_budget,
    hardened_pod,
    labels_for,
    manifest,
    service,
)
from gke_inference.catalogue.versions import api, image

MODEL_HEADER = "X-Gateway-Model-Name"
PORT = 9004
HEALTH_PORT = 9005
COMPONENT = "body-router"
"""Value of `app.kubernetes.io/component` on its objects."""
BATCH_PATHS = ("/v1/batches", "/v1/files")
"""Paths of OpenAI's Batch API: their bodies name no model, and files are forms."""
BATCH_CONDITION = " || ".join(
    f"request.path == '{path}' || request.path.startsWith('{path}/')" for path in BATCH_PATHS
)
"""Holds for those paths (docs.cloud.google.com/service-extensions, CEL matcher reference). GKE
takes no `^` and no `|` in the text of a condition, so that `matches` can say less."""
_DISTROLESS_NONROOT_USER = 65532


def router_objects(name: str, namespace: str, replicas: int) -> list[Manifest]:
    """Returns ServiceAccount, Deployment, its budget, Service and HealthCheckPolicy, in this order.

    The account has no role: the router asks the API server for nothing. Without a router no request
    is routed, so its replicas never share a node.
    """
    labels = labels_for(name, COMPONENT)
    # HTTP2 here means TLS: the router serves with a self-signed certificate.
    port: Manifest = {
        "appProtocol": "HTTP2",
        "name": "grpc",
        "port": PORT,
        "targetPort": "grpc",
    }
    check = {"port": HEALTH_PORT, "portSpecification": "USE_FIXED_PORT"}
    return [
        manifest("service_account", name, namespace, labels=labels),
        deployment(name, namespace, COMPONENT, available(name, _pod(name)), replicas),
        disruption_budget(name, namespace, COMPONENT),
        service(name, namespace, COMPONENT, [port]),
        manifest(
            "gateway_health_check",
            name,
            namespace,
            labels=labels,
            spec={
                "default": {"config": {"grpcHealthCheck": check, "type": "GRPC"}},
                "targetRef": {"group": "", "kind": api("service").kind, "name": name},
            },
        ),
    ]


def routing_extension(
    name: str, namespace: str, gateway: str, router: str, *, has_batches: bool = False
) -> Manifest:
    """Returns the GCPRoutingExtension that makes a Gateway call the router before it routes.

    It fails closed: without the header no route could match, and a 404 would blame the client. It
    ends a request whose body is not JSON (v1.2.0, pkg/bbr/handlers/request.go), so that it does not
    see files of batches.
    """
    condition = {"celExpressions": [{"celMatcher": f"!({BATCH_CONDITION})"}]}
    return manifest(
        "gateway_routing_extension",
        name,
        namespace,
        labels=labels_for(name, COMPONENT),
        spec={
            "extensionChains": [
                {
                    "extensions": [
                        {
                            "authority": f"{router}.{namespace}.svc",
                            "backendRef": {
                                "group": "",
                                "kind": api("service").kind,
                                "name": router,
                                "port": PORT,
                            },
                            "failOpen": False,
                            "name": "model-name",
                            "requestBodySendMode": "FullDuplexStreamed",
                            "supportedEvents": [
                                "RequestHeaders",
                                "RequestBody",
                                "RequestTrailers",
                            ],
                            "timeout": "1s",
                        }
                    ],
                    **({"matchCondition": condition} if has_batches else {}),
                    "name": "body-router",
                }
            ],
            "targetRefs": [
                {"group": api("gateway").group, "kind": api("gateway").kind, "name": gateway}
            ],
        },
    )


def _pod(name: str) -> Manifest:
    probe: Manifest = {"grpc": {"port": HEALTH_PORT}}
    return {
        "containers": [
            {
                "args": ["--streaming", "-v", "1"],
                "image": image("body_router").reference,
                "livenessProbe": {**probe, "initialDelaySeconds": 5, "periodSeconds": 10},
                "name": "body-router",
                "ports": [
                    {"containerPort": PORT, "name": "grpc"},
                    {"containerPort": HEALTH_PORT, "name": "grpc-health"},
                ],
                "readinessProbe": {**probe, "periodSeconds": 2},
                "resources": {
                    "limits": {"memory": "512Mi"},
                    "requests": {"cpu": "200m", "memory": "128Mi"},
                },
                "securityContext": HARDENED_CONTAINER,
            }
        ],
        "securityContext": hardened_pod(_DISTROLESS_NONROOT_USER),
        "serviceAccountName": name,
    }
