"""The body router: copies `model` from a request body into a header.

A load balancer routes on headers, but the OpenAI API puts the model into the body. The router
(workloads/gateway/router) is an external processor that the load balancer calls first, before a
client is identified. It sets `X-Gateway-Model-Name`, which the HTTPRoutes match. On a Gateway
without a client gate it is also called for responses, and removes the headers that no client gets.
It must run in the namespace of the Gateway.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    LONGEST_GRACE_SECONDS,
    Manifest,
    available,
    container_ports,
    deployment,
    disruption_budget,
    hardened_pod,
    labels_for,
    manifest,
    scraping,
    service,
)
from gke_inference.catalogue.versions import api, image
from gke_inference.sizing.pickers import USUAL_ROUTER_MILLICORES

from .body_memory import ROUTER

MODEL_HEADER = "X-Gateway-Model-Name"
PORT = 9004
HEALTH_PORT = 9005
METRICS_PORT = 9090
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
_NONROOT_USER = 65532


@dataclass(frozen=True)
class AskedGate:
    """The client gate, which knows the model that answers for a team with a spent budget."""

    address: str
    """`HOST:PORT` of its Service."""
    models: tuple[str, ...]
    """Models for which another one can answer. It is asked about no others."""

    @property
    def arguments(self) -> list[str]:
        """Flags of the router."""
        return [f"--gate={self.address}", f"--asked={','.join(self.models)}"]


def router_objects(
    name: str,
    namespace: str,
    replicas: int,
    hops: int,
    millicores: int = USUAL_ROUTER_MILLICORES,
    credentials: Sequence[str] = (),
    gate: AskedGate | None = None,
) -> list[Manifest]:
    """Return the account, Deployment, budget, Service, HealthCheckPolicy and PodMonitoring.

    The account has no role, since the router does not call the API server. Without a router no
    request is routed, so its replicas never share a node. `hops` is the position of a client's
    address in X-Forwarded-For, counted from the end, and `millicores` the CPU of each replica.
    A request without any of the headers `credentials` is refused before its body is held. The
    `gate` is asked for the model that answers.
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
            name,
            namespace,
            COMPONENT,
            available(name, _pod(name, hops, millicores, credentials, gate), LONGEST_GRACE_SECONDS),
            replicas,
        ),
        disruption_budget(name, namespace, COMPONENT),
        service(name, namespace, COMPONENT, [port]),
        extension_health_check(name, namespace, COMPONENT, HEALTH_PORT),
        scraping(name, namespace, COMPONENT),
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
    404. Batch files name no model and are larger than what the router holds, so that it does not
    see them.
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


def _pod(
    name: str, hops: int, millicores: int, credentials: Sequence[str], gate: AskedGate | None
) -> Manifest:
    needed = [f"--credentials={','.join(credentials)}"] if credentials else []
    needed += [] if gate is None else gate.arguments
    probe: Manifest = {"grpc": {"port": HEALTH_PORT}}
    return {
        "automountServiceAccountToken": False,
        "containers": [
            {
                "args": [*ROUTER.arguments, f"--forwarded-hops={hops}", *needed],
                "env": ROUTER.environment,
                "image": image("body_router").reference,
                "livenessProbe": {**probe, "initialDelaySeconds": 5, "periodSeconds": 10},
                "name": "body-router",
                "ports": container_ports(
                    {"grpc": PORT, "grpc-health": HEALTH_PORT, "metrics": METRICS_PORT}
                ),
                "readinessProbe": {**probe, "periodSeconds": 2},
                "resources": {
                    "limits": {"memory": f"{ROUTER.limit_mib}Mi"},
                    "requests": {"cpu": f"{millicores}m", "memory": "128Mi"},
                },
                "securityContext": HARDENED_CONTAINER,
            }
        ],
        "securityContext": hardened_pod(_NONROOT_USER),
        "serviceAccountName": name,
    }
