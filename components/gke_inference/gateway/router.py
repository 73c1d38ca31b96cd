"""The body-based router: copies `model` from a request body into a header.

A load balancer routes on headers, but the OpenAI API puts the model into the body. The router is an
external processor that the load balancer calls first. It sets `X-Gateway-Model-Name`, which the
HTTPRoutes match. It must run in the namespace of the Gateway. Flags and ports:
gateway-api-inference-extension v1.5.0, cmd/bbr and its body-based-routing chart.
"""

import json

from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    LONGEST_GRACE_SECONDS,
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
PROBE_SECONDS = 2
"""Interval and timeout of the load balancer's probes, as those of the models' replicas."""
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
    return [
        manifest("service_account", name, namespace, labels=labels),
        deployment(
            name, namespace, COMPONENT, available(name, _pod(name), LONGEST_GRACE_SECONDS), replicas
        ),
        disruption_budget(name, namespace, COMPONENT),
        service(name, namespace, COMPONENT, [port]),
        extension_health_check(name, namespace, COMPONENT, HEALTH_PORT),
    ]


def extension_health_check(name: str, namespace: str, component: str, port: int) -> Manifest:
    """Return the HealthCheckPolicy of a program that an extension calls.

    While the load balancer calls a replica that is gone, its requests fail. A policy without these
    times probes every 5 seconds (GoogleCloudPlatform/gke-gateway-api, HealthCheckPolicy).

    Args:
        name: Name of the Service and of the policy.
        namespace: Namespace of both.
        component: Component of the program, for the labels.
        port: Port of its gRPC health service.
    """
    check = {"port": port, "portSpecification": "USE_FIXED_PORT"}
    return manifest(
        "gateway_health_check",
        name,
        namespace,
        labels=labels_for(name, component),
        spec={
            "default": {
                "checkIntervalSec": PROBE_SECONDS,
                "config": {"grpcHealthCheck": check, "type": "GRPC"},
                "timeoutSec": PROBE_SECONDS,
            },
            "targetRef": api("service").reference(name),
        },
    )


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
