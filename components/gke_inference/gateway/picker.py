"""The endpoint picker of an InferencePool: the upstream image with this project's configuration.

For each request, the picker scores the pool's ready replicas by queue length, free KV cache, cached
prompt prefixes and loaded LoRA adapters, and the load balancer sends the request to the best one.
Flags, ports and RBAC, which both lines share: gateway-api-inference-extension v1.5.0
(cmd/epp/runner, config/charts/inferencepool) and llm-d-router v0.10.0 (cmd/epp/runner,
pkg/epp/server, config/charts/routerlib). What one line has alone is in `llm_d_config`.
"""

from dataclasses import dataclass, field

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
from gke_inference.catalogue.engines import DEFAULT_ENGINE, Metrics, engine
from gke_inference.catalogue.pickers import GIE, PickerLine, picker_line
from gke_inference.catalogue.versions import api, image
from gke_inference.sizing.pickers import USUAL_PICKER, Resources

from .llm_d_config import (
    Routing,
    llm_d_config,
    llm_d_flags,
    predictor_environment,
    predictor_sidecars,
    predictor_volumes,
)
from .picker_config import FlowControl, picker_config
from .picker_roles import metric_args, roles_config

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


@dataclass(frozen=True)
class PickerSetup:
    """How a picker routes, and what it may use."""

    line: str = GIE
    """Line of the picker, as in a stack."""
    routing: Routing = field(default_factory=Routing)
    """Features of the line `llm-d-router`."""
    resources: Resources = USUAL_PICKER
    """CPU and memory that it requests."""


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
    setup: PickerSetup | None = None,
) -> list[Manifest]:
    """Return ServiceAccount, Role, RoleBinding, ConfigMap, Deployment, Service, PodMonitoring.

    With several replicas, one is active and the others wait: only the elected leader is ready. Such
    a Deployment never has all replicas ready, so nothing waits for it or its Service. Replicas run
    on different nodes and have no disruption budget: with one ready pod, a budget of one would
    block draining the leader's node. A terminating picker observes its responses to their end, at
    most `timeout_seconds` (gateway-api-inference-extension#614). With `threshold_tokens`, the pool
    has prefill and decode replicas.
    """
    setup = setup or PickerSetup()
    line, names = picker_line(setup.line), metrics or engine(DEFAULT_ENGINE).metrics
    labels = labels_for(name, COMPONENT)
    is_highly_available = replicas > 1
    args = picker_args(namespace, pool, is_highly_available=is_highly_available)
    picker = line.image if threshold_tokens is None else line.roles_image
    if setup.line != GIE:
        args += llm_d_flags(setup.routing)
        config = llm_d_config(
            names,
            setup.routing,
            has_adapters=has_adapters,
            flow=flow,
            threshold_tokens=threshold_tokens,
        )
    elif threshold_tokens is None:
        config = picker_config(has_adapters=has_adapters, metrics=metrics, flow=flow)
    else:
        config = roles_config(threshold_tokens)
        args += metric_args(names)
    files = {CONFIG_FILE: config}
    annotations = SKIP_AWAIT if is_highly_available else None
    return [
        manifest("service_account", name, namespace, labels=labels),
        manifest("role", name, namespace, labels=labels, rules=_rules(line, is_highly_available)),
        role_binding(name, name, [service_account(name, namespace)], namespace, labels=labels),
        manifest("config_map", name, namespace, labels=labels, data=files),
        deployment(
            name,
            namespace,
            COMPONENT,
            {
                **_pod(name, picker, args, setup, is_highly_available=is_highly_available),
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


def _pod(
    name: str, picker: str, args: list[str], setup: PickerSetup, *, is_highly_available: bool
) -> Manifest:
    liveness, readiness = ("inference-extension", "inference-extension")
    if is_highly_available:
        liveness, readiness = ("liveness", "readiness")
    predicts, resources = setup.routing.predicts_latency, setup.resources
    return {
        "containers": [
            {
                "args": args,
                "env": [
                    _field("NAMESPACE", "metadata.namespace"),
                    _field("POD_NAME", "metadata.name"),
                    *(predictor_environment() if predicts else []),
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
                    "limits": {"memory": _quantity(resources.limit_mib)},
                    "requests": {
                        "cpu": f"{resources.millicores}m",
                        "memory": _quantity(resources.memory_mib),
                    },
                },
                "securityContext": HARDENED_CONTAINER,
                "volumeMounts": [{"mountPath": "/config", "name": "config", "readOnly": True}],
            },
            *(predictor_sidecars() if predicts else []),
        ],
        "securityContext": hardened_pod(_DISTROLESS_NONROOT_USER),
        "serviceAccountName": name,
        **({"topologySpreadConstraints": spread(name)} if is_highly_available else {}),
        "volumes": [
            {"configMap": {"name": name}, "name": "config"},
            *(predictor_volumes() if predicts else []),
        ],
    }


def _quantity(mib: int) -> str:
    gib, rest = divmod(mib, 1024)
    return f"{mib}Mi" if rest else f"{gib}Gi"


def _rules(line: PickerLine, is_highly_available: bool) -> list[Manifest]:
    read = ["get", "list", "watch"]
    rules: list[Manifest] = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": read},
        {
            "apiGroups": [api("inference_pool").group],
            "resources": ["inferencepools"],
            "verbs": read,
        },
        {
            "apiGroups": [api(line.apis["objective"]).group],
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
