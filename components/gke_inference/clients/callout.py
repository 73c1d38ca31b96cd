"""The objects of a region's callout, which the load balancer calls for every request.

The program is workloads/gateway/callout, a traffic extension: it runs after the body router
has chosen the route and before the picker chooses a replica
(docs.cloud.google.com/service-extensions/docs/lb-extensions-overview).
"""

from typing import Any

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
from gke_inference.catalogue.response_headers import hidden_headers_flag
from gke_inference.catalogue.versions import api, image
from gke_inference.gateway.body_memory import CLIENT_GATE
from gke_inference.gateway.extension_timeout import extension_timeout
from gke_inference.gateway.router import BATCH_CONDITION, extension_health_check
from gke_inference.guardrails.armor_calls import EVENTS, ArmorCallArgs, armor_extension

COMPONENT = "client-gate"
"""Value of `app.kubernetes.io/component` on its objects."""
PORT = 9010
HEALTH_PORT = 9011
METRICS_PORT = 9012
FILE = "callout.yaml"
"""Key in its ConfigMap."""
_FOLDER = "/etc/callout"
_DISTROLESS_NONROOT_USER = 65532
_TIMEOUT = "1s"


def callout_objects(
    name: str, namespace: str, account: str, replicas: int, hops: int, settings: Any
) -> dict[str, Manifest]:
    """Return the callout's objects by role, in creation order.

    Without a callout no request passes, so its replicas never share a node.

    Args:
        name: Name of every object.
        namespace: Namespace of the Gateway. Extensions can call only services in it.
        account: Service account of the pods.
        replicas: Number of replicas.
        hops: Position of the client's address in X-Forwarded-For, counted from the end.
        settings: Configuration, as a text or an output of one.
    """
    labels = labels_for(name, COMPONENT)
    # HTTP2 here means TLS: the callout serves with a self-signed certificate.
    port: Manifest = {"appProtocol": "HTTP2", "name": "grpc", "port": PORT, "targetPort": "grpc"}
    return {
        "settings": manifest("config_map", name, namespace, labels=labels, data={FILE: settings}),
        "deployment": deployment(
            name,
            namespace,
            COMPONENT,
            # it follows each answer to its end, and then ends by itself
            available(name, _pod(name, account, hops), LONGEST_GRACE_SECONDS),
            replicas,
        ),
        "budget": disruption_budget(name, namespace, COMPONENT),
        "service": service(name, namespace, COMPONENT, [port]),
        "health": extension_health_check(name, namespace, COMPONENT, HEALTH_PORT),
        "timeout": extension_timeout(name, namespace, COMPONENT),
        "monitoring": scraping(name, namespace, COMPONENT),
    }


def traffic_extension(
    name: str,
    namespace: str,
    gateway: str,
    armor: list[ArmorCallArgs],
    *,
    has_batches: bool = False,
) -> Manifest:
    """Return the GCPTrafficExtension that calls the callout, and then Model Armor.

    Model Armor does not see batch files: each request of a batch passes it when it is sent.

    It fails closed, since an unavailable callout must not open the endpoint to everyone. It
    processes bodies as they are streamed, since the usage of a stream is known only at its end.
    """
    called: Manifest = {
        "authority": f"{name}.{namespace}.svc",
        "backendRef": api("service").reference(name, port=PORT),
        "failOpen": False,
        "name": "clients",
        "requestBodySendMode": "FullDuplexStreamed",
        "responseBodySendMode": "FullDuplexStreamed",
        "supportedEvents": list(EVENTS),
        "timeout": _TIMEOUT,
    }
    files = {
        "extensions": [called],
        "matchCondition": {"celExpressions": [{"celMatcher": BATCH_CONDITION}]},
        "name": "files",
    }
    target = api("gateway").reference(gateway)
    return manifest(
        "gateway_traffic_extension",
        name,
        namespace,
        labels=labels_for(name, COMPONENT),
        spec={
            "extensionChains": [
                *([files] if has_batches else []),
                {"extensions": [called, *map(armor_extension, armor)], "name": "clients"},
            ],
            "targetRefs": [target],
        },
    )


def _pod(name: str, account: str, hops: int) -> Manifest:
    probe: Manifest = {"grpc": {"port": HEALTH_PORT}}
    return {
        "automountServiceAccountToken": False,
        "containers": [
            {
                "args": [
                    f"--config={_FOLDER}/{FILE}",
                    f"--forwarded-hops={hops}",
                    f"--grpc-port={PORT}",
                    f"--health-port={HEALTH_PORT}",
                    *CLIENT_GATE.arguments,
                    f"--metrics-port={METRICS_PORT}",
                    hidden_headers_flag(),
                ],
                "env": CLIENT_GATE.environment,
                "image": image("callout").reference,
                "livenessProbe": {
                    "grpc": {"port": HEALTH_PORT, "service": "liveness"},
                    "initialDelaySeconds": 5,
                    "periodSeconds": 10,
                },
                "name": "callout",
                "ports": container_ports(
                    {"grpc": PORT, "grpc-health": HEALTH_PORT, "metrics": METRICS_PORT}
                ),
                "readinessProbe": {**probe, "periodSeconds": 2},
                "resources": {
                    "limits": {"memory": f"{CLIENT_GATE.limit_mib}Mi"},
                    "requests": {"cpu": "250m", "memory": "128Mi"},
                },
                "securityContext": HARDENED_CONTAINER,
                "volumeMounts": [{"mountPath": _FOLDER, "name": "settings", "readOnly": True}],
            }
        ],
        "securityContext": hardened_pod(_DISTROLESS_NONROOT_USER),
        "serviceAccountName": account,
        "volumes": [{"configMap": {"name": name}, "name": "settings"}],
    }
