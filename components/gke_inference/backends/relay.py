"""The objects of a relay: the program in workloads/gateway/relay, which calls models elsewhere."""

from collections.abc import Sequence
from typing import Any

from gke_inference.base.manifests import (
    COMPONENT_LABEL,
    ENGINES,
    HARDENED_CONTAINER,
    LET_GO_SECONDS,
    NAME_LABEL,
    Manifest,
    available,
    container_ports,
    hardened_pod,
    labels_for,
    manifest,
)
from gke_inference.catalogue.google_addresses import (
    METADATA_SERVER,
    METADATA_SERVER_OF_DATAPLANE_V2,
)
from gke_inference.catalogue.load_balancing import HEALTH_CHECK_RANGES
from gke_inference.catalogue.versions import image
from gke_inference.gateway.body_memory import RELAY
from gke_inference.gateway.picker import COMPONENT as PICKERS
from gke_inference.gateway.settings import ProxyCallersArgs

COMPONENT = "relay"
"""Value of `app.kubernetes.io/component` on its objects."""
PORT = 8000
METRICS_PORT = 9013
FILE = "relay.yaml"
"""Key in its ConfigMap."""
_FOLDER = "/etc/relay"
_DISTROLESS_NONROOT_USER = 65532


def relay_pod(
    name: str, account: str, settings: str, longest_seconds: int, *, has_token: bool
) -> Manifest:
    """Return the spec of a relay's pods.

    Args:
        name: Name of its Deployment, by which its replicas are spread.
        account: Service account of the pods.
        settings: Name of the ConfigMap with its configuration, which it watches.
        longest_seconds: Maximum duration of a request, which a terminating pod finishes.
        has_token: Whether it uses the cluster's API, as a fallback does.
    """
    probe: Manifest = {"httpGet": {"path": "/health", "port": PORT}}
    container: Manifest = {
        "args": [
            f"--config={_FOLDER}/{FILE}",
            f"--port={PORT}",
            f"--metrics-port={METRICS_PORT}",
            f"--drain={LET_GO_SECONDS}s",
            f"--grace={longest_seconds}s",
            *RELAY.arguments,
        ],
        "env": RELAY.environment,
        "image": image("relay").reference,
        "livenessProbe": {
            "httpGet": {"path": "/alive", "port": PORT},
            "initialDelaySeconds": 5,
            "periodSeconds": 10,
        },
        "name": "relay",
        "ports": container_ports({"http": PORT, "metrics": METRICS_PORT}),
        "readinessProbe": {**probe, "periodSeconds": 2},
        "resources": {
            "limits": {"memory": f"{RELAY.limit_mib}Mi"},
            "requests": {"cpu": "250m", "memory": "128Mi"},
        },
        "securityContext": HARDENED_CONTAINER,
        "volumeMounts": [{"mountPath": _FOLDER, "name": "settings", "readOnly": True}],
    }
    pod = available(
        name,
        {
            "automountServiceAccountToken": has_token,
            "containers": [container],
            "securityContext": hardened_pod(_DISTROLESS_NONROOT_USER),
            "serviceAccountName": account,
            "volumes": [{"configMap": {"name": settings}, "name": "settings"}],
        },
    )
    # the program drains itself: it becomes unready first, then finishes its requests
    del pod["containers"][0]["lifecycle"]
    pod["terminationGracePeriodSeconds"] = longest_seconds + LET_GO_SECONDS + 10
    return pod


def walls(
    name: str,
    namespace: str,
    selector: dict[str, str],
    callers: ProxyCallersArgs,
    ports: Sequence[int],
    model: str | None = None,
) -> dict[str, Manifest]:
    """Return the NetworkPolicies of a relay by role: its ingress and its egress.

    A policy cannot match hostnames, so the relay's egress ports are open to all addresses.

    Args:
        name: Name of the relay.
        namespace: Namespace of the relay.
        selector: Labels of its pods.
        callers: Allowed ingress.
        ports: Ports of the targets.
        model: Model whose pool it is a replica of, by `app.kubernetes.io/name`: its pickers read
            the relay, and the relay reads its engines.
    """
    ranges = [callers["proxies_cidr"], *sorted(HEALTH_CHECK_RANGES)]
    asking: list[Manifest] = [{"ipBlock": {"cidr": cidr}} for cidr in ranges]
    if model is not None:
        asking.append({"podSelector": {"matchLabels": {COMPONENT_LABEL: PICKERS}}})
    collectors = {"kubernetes.io/metadata.name": callers["metrics_namespace"]}
    egress: list[Manifest] = [
        {"ports": [{"port": 53, "protocol": "UDP"}, _tcp(53)]},
        {"ports": [_tcp(port) for port in ports], "to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]},
        *(
            {"ports": [_tcp(port)], "to": [{"ipBlock": {"cidr": f"{at}/32"}}]}
            for at, port in (METADATA_SERVER, METADATA_SERVER_OF_DATAPLANE_V2)
        ),
    ]
    engines = {"matchLabels": {COMPONENT_LABEL: ENGINES, NAME_LABEL: str(model)}}
    if model is not None:
        egress.append({"ports": [_tcp(PORT)], "to": [{"podSelector": engines}]})
    made = {
        "policy": _policy(
            name,
            namespace,
            egress=egress,
            ingress=[
                {"from": asking, "ports": [_tcp(PORT)]},
                {
                    "from": [{"namespaceSelector": {"matchLabels": collectors}}],
                    "ports": [_tcp(METRICS_PORT)],
                },
            ],
            podSelector={"matchLabels": selector},
            policyTypes=["Egress", "Ingress"],
        )
    }
    if model is not None:
        reading: Manifest = {"podSelector": {"matchLabels": selector}}
        made["engines-policy"] = _policy(
            f"{name}-reads",
            namespace,
            ingress=[{"from": [reading], "ports": [_tcp(PORT)]}],
            podSelector=engines,
            policyTypes=["Ingress"],
        )
    return made


def _tcp(port: int) -> Manifest:
    return {"port": port, "protocol": "TCP"}


def _policy(name: str, namespace: str, **spec: Any) -> Manifest:
    labels = labels_for(name, "network-policy")
    return manifest("network_policy", name, namespace, labels=labels, spec=spec)
