"""The body-based router: copies `model` from a request body into a header.

A load balancer routes on headers, but the OpenAI API puts the model into the body. The router is an
external processor that the load balancer calls first. It sets `X-Gateway-Model-Name`, which the
HTTPRoutes match. It must run in the namespace of the Gateway. Flags and ports:
gateway-api-inference-extension v1.5.0, cmd/bbr and its body-based-routing chart.
"""

import json

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
"""Paths of OpenAI's Batch API, whose bodies contain no model name and whose files are forms."""
BATCH_CONDITION = " || ".join(
    f"request.path == '{path}' || request.path.startsWith('{path}/')" for path in BATCH_PATHS
)
"""CEL condition for these paths (docs.cloud.google.com/service-extensions, CEL matcher reference).
GKE rejects `^` and `|` in a condition, which limits `matches`."""
_DISTROLESS_NONROOT_USER = 65532
# Type, name and parameters. By default, the router also maps adapters to models from ConfigMaps,
# which it would need permission to read.
_PLUGIN = "body-field-to-header:model:" + json.dumps(
    {"fieldName": "model", "headerName": MODEL_HEADER}
)
ARGUMENTS = ("--streaming", "-v", "1", "--tracing=false", "--plugin", _PLUGIN)
"""Arguments of the router, without ports."""


def router_objects(name: str, namespace: str, replicas: int) -> list[Manifest]:
    """Return ServiceAccount, Deployment, its budget, Service and HealthCheckPolicy, in order.

    The account has no role, since the router does not call the API server. Without a router no
    request is routed, so its replicas never share a node.
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
                "targetRef": api("service").reference(name),
            },
        ),
    ]


def routing_extension(
    name: str, namespace: str, gateway: str, router: str, *, has_batches: bool = False
) -> Manifest:
    """Return the GCPRoutingExtension through which a Gateway calls the router before routing.

    It fails closed: without the header no route would match, and clients would get a misleading
    404. The router rejects bodies that are not JSON (v1.5.0, pkg/bbr/handlers/request.go), so it
    must not see batch files.
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
                            "backendRef": api("service").reference(router, port=PORT),
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
            "targetRefs": [api("gateway").reference(gateway)],
        },
    )


def _pod(name: str) -> Manifest:
    probe: Manifest = {"grpc": {"port": HEALTH_PORT}}
    return {
        "containers": [
            {
                "args": [*ARGUMENTS],
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
