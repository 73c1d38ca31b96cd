"""The endpoint picker of an InferencePool: the upstream image with this project's configuration.

For each request, the picker scores the pool's ready replicas by queue length, free KV cache, cached
prompt prefixes and loaded LoRA adapters, and the load balancer sends the request to the best one.
Flags, ports and RBAC: gateway-api-inference-extension v1.5.0 (cmd/epp/runner,
config/charts/inferencepool).
"""

from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    NAME_LABEL,
    SKIP_AWAIT,
    Manifest,
    container_ports,
    deployment,
    grace_seconds,
    hardened_pod,
    labels_for,
    manifest,
    role_binding,
    scraping,
    service,
    service_account,
    spread,
)
from gke_inference.catalogue.engines import Metrics, engine
from gke_inference.catalogue.versions import api, image

from .picker_config import FlowControl, picker_config
from .picker_roles import PICKER_IMAGE, metric_args, roles_config

PORT = 9002
HEALTH_PORT = 9003
METRICS_PORT = 9090
CONFIG_FILE = "default-plugins.yaml"
COMPONENT = "endpoint-picker"
"""Value of `app.kubernetes.io/component` on its objects."""
_SERVICE_PORTS = [
    {"name": "grpc-ext-proc", "port": PORT, "targetPort": "grpc"},
    {"name": "http-metrics", "port": METRICS_PORT, "targetPort": "metrics"},
]
_DISTROLESS_NONROOT_USER = 65532


def picker_objects(
    name: str,
    namespace: str,
    pool: str,
    *,
    has_adapters: bool,
    replicas: int,
    timeout_seconds: int,
    threshold_tokens: int | None = None,
    metrics: Metrics | None = None,
    flow: FlowControl | None = None,
) -> list[Manifest]:
    """Return ServiceAccount, Role, RoleBinding, ConfigMap, Deployment, Service, PodMonitoring.

    With several replicas, one is active and the others wait: only the elected leader is ready. Such
    a Deployment never has all replicas ready, so nothing waits for it or its Service. Replicas run
    on different nodes and have no disruption budget: with one ready pod, a budget of one would
    block draining the leader's node. A terminating picker observes its responses to their end, at
    most `timeout_seconds` (gateway-api-inference-extension#614). With `threshold_tokens`, it is
    llm-d's picker, for a pool of prefill and decode replicas.
    """
    labels = labels_for(name, COMPONENT)
    is_highly_available = replicas > 1
    args = picker_args(namespace, pool, is_highly_available=is_highly_available)
    files = {CONFIG_FILE: picker_config(has_adapters=has_adapters, metrics=metrics, flow=flow)}
    picker = "endpoint_picker"
    if threshold_tokens is not None:
        files, picker = {CONFIG_FILE: roles_config(threshold_tokens)}, PICKER_IMAGE
        args += metric_args(metrics or engine("vllm").metrics)
    annotations = SKIP_AWAIT if is_highly_available else None
    return [
        manifest("service_account", name, namespace, labels=labels),
        manifest("role", name, namespace, labels=labels, rules=_rules(is_highly_available)),
        role_binding(name, name, [service_account(name, namespace)], namespace, labels=labels),
        manifest("config_map", name, namespace, labels=labels, data=files),
        deployment(
            name,
            namespace,
            COMPONENT,
            {
                **_pod(name, picker, args, is_highly_available=is_highly_available),
                "terminationGracePeriodSeconds": grace_seconds(timeout_seconds),
            },
            replicas,
            annotations=annotations,
            files=files,
            # Two active pickers would each see only half the load, so all old ones end at once.
            # "Recreate" would start the new ones only after the old have observed their responses.
            rolling={"maxSurge": 0, "maxUnavailable": "100%"},
        ),
        service(name, namespace, COMPONENT, _SERVICE_PORTS, annotations=annotations),
        scraping(name, namespace, COMPONENT, {NAME_LABEL: name}),
    ]


def picker_args(namespace: str, pool: str, *, is_highly_available: bool) -> list[str]:
    """Return the picker's command line.

    The picker's metrics contain no prompts or secrets, so they need no token inside the cluster.
    """
    flags = [
        ("--pool-name", pool),
        ("--pool-namespace", namespace),
        ("--pool-group", api("inference_pool").group),
        ("--config-file", f"/config/{CONFIG_FILE}"),
        ("--zap-encoder", "json"),
        ("-v", "1"),
    ]
    args = [part for flag in flags for part in flag]
    args += ["--tracing=false", "--metrics-endpoint-auth=false", "--enable-pprof=false"]
    if is_highly_available:
        args.append("--ha-enable-leader-election")
    return args


def _pod(name: str, picker: str, args: list[str], *, is_highly_available: bool) -> Manifest:
    liveness, readiness = ("inference-extension", "inference-extension")
    if is_highly_available:
        liveness, readiness = ("liveness", "readiness")
    return {
        "containers": [
            {
                "args": args,
                "env": [
                    _field("NAMESPACE", "metadata.namespace"),
                    _field("POD_NAME", "metadata.name"),
                ],
                "image": image(picker).reference,
                "livenessProbe": {
                    "grpc": {"port": HEALTH_PORT, "service": liveness},
                    "initialDelaySeconds": 5,
                    "periodSeconds": 10,
                },
                "name": "epp",
                "ports": container_ports(
                    {"grpc": PORT, "grpc-health": HEALTH_PORT, "metrics": METRICS_PORT}
                ),
                "readinessProbe": {
                    "grpc": {"port": HEALTH_PORT, "service": readiness},
                    "periodSeconds": 2,
                },
                "resources": {
                    "limits": {"memory": "4Gi"},
                    "requests": {"cpu": "500m", "memory": "1Gi"},
                },
                "securityContext": HARDENED_CONTAINER,
                "volumeMounts": [{"mountPath": "/config", "name": "config", "readOnly": True}],
            }
        ],
        "securityContext": hardened_pod(_DISTROLESS_NONROOT_USER),
        "serviceAccountName": name,
        **({"topologySpreadConstraints": spread(name)} if is_highly_available else {}),
        "volumes": [{"configMap": {"name": name}, "name": "config"}],
    }


def _rules(is_highly_available: bool) -> list[Manifest]:
    read = ["get", "list", "watch"]
    rules: list[Manifest] = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": read},
        {
            "apiGroups": [api("inference_pool").group],
            "resources": ["inferencepools"],
            "verbs": read,
        },
        {
            "apiGroups": [api("inference_objective").group],
            "resources": ["inferenceobjectives", "inferencemodelrewrites"],
            "verbs": read,
        },
    ]
    if is_highly_available:
        write = ["create", "delete", "get", "list", "patch", "update", "watch"]
        rules += [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": write},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        ]
    return rules


def _field(variable: str, path: str) -> Manifest:
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}}
