"""The endpoint picker of one InferencePool: upstream's program, this project's configuration.

For each request the picker scores the pool's ready replicas by queue length, free KV cache, the
prompt prefix they have seen and the LoRA adapters they hold, and the load balancer sends the
request to the best. Flags, ports, RBAC and plugin names: gateway-api-inference-extension v1.2.0
(cmd/epp/runner, config/charts/inferencepool).
"""

import yaml

from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    NAME_LABEL,
    SKIP_AWAIT,
    Manifest,
    deployment,
    hardened_pod,
    labels_for,
    manifest,
    role_binding,
    service,
    service_account,
    spread,
)
from gke_inference.catalogue.engines import Metrics, engine
from gke_inference.catalogue.versions import api, image

from .picker_roles import PICKER_IMAGE, roles_config

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
# Longer than the longest stream the picker may still observe when it is told to stop.
_GRACE_SECONDS = 130
# Chosen in the routing laboratory: docs/adr/0006-picker-configuration.md. KV cache use tells small
# hardware from large in one pool, and queues do not: they are empty until a replica is lost.
_WEIGHTS = {"queue-scorer": 2, "kv-cache-utilization-scorer": 5, "prefix-cache-scorer": 3}
# A request in the wrong batch waits for an adapter's slot, so adapters weigh more than a prefix.
_ADAPTER_WEIGHTS = {
    "queue-scorer": 2,
    "kv-cache-utilization-scorer": 2,
    "prefix-cache-scorer": 3,
    "lora-affinity-scorer": 4,
}


def picker_config(*, has_adapters: bool, metrics: Metrics | None = None) -> str:
    """Returns the EndpointPickerConfig as YAML, with scorers of what the engine's metrics tell.

    The prefix scorer tunes itself: it takes block size and cache size from the engine's
    `vllm:cache_config_info`, so the two can never disagree; the numbers below only hold until
    the first scrape (64 characters = 16 tokens of 4 characters), or for good with another engine.
    """
    names = metrics or engine("vllm").metrics
    weights = dict(_ADAPTER_WEIGHTS if has_adapters and names.adapters is not None else _WEIGHTS)
    if names.kv_cache is None:
        del weights["kv-cache-utilization-scorer"]
    plugins: list[Manifest] = []
    for name in weights:
        plugin: Manifest = {"type": name}
        if name == "prefix-cache-scorer":
            plugin["parameters"] = {
                "autoTune": names.cache_info is not None,
                "blockSize": 64,
                "lruCapacityPerServer": 31250,
                "maxPrefixBlocksToMatch": 256,
            }
        plugins.append(plugin)
    profile = [{"pluginRef": name, "weight": weight} for name, weight in weights.items()]
    kind = api("picker_config")
    return yaml.safe_dump(
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "plugins": plugins,
            "schedulingProfiles": [{"name": "default", "plugins": profile}],
        },
        sort_keys=False,
    )


def picker_objects(
    name: str,
    namespace: str,
    pool: str,
    *,
    has_adapters: bool,
    replicas: int,
    threshold_tokens: int | None = None,
    metrics: Metrics | None = None,
) -> list[Manifest]:
    """Returns ServiceAccount, Role, RoleBinding, ConfigMap, Deployment, Service, PodMonitoring.

    With more than one replica one is active and the others wait: they elect a leader and only the
    leader is ready. Such a Deployment never has all replicas ready, so nothing waits for it or
    for its Service. They stand on different nodes and have no budget: with one ready pod a budget
    of one would keep the leader's node from being drained.
    With `threshold_tokens` it is llm-d's picker, for a pool of prefill and decode replicas.
    """
    labels = labels_for(name, COMPONENT)
    files = {CONFIG_FILE: picker_config(has_adapters=has_adapters, metrics=metrics)}
    picker = "endpoint_picker"
    if threshold_tokens is not None:
        files, picker = {CONFIG_FILE: roles_config(threshold_tokens)}, PICKER_IMAGE
    is_highly_available = replicas > 1
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
            _pod(
                name,
                namespace,
                pool,
                picker,
                metrics or engine("vllm").metrics,
                is_highly_available=is_highly_available,
            ),
            replicas,
            annotations=annotations,
            files=files,
            strategy="Recreate",  # two active pickers would each see half the load
        ),
        service(name, namespace, COMPONENT, _SERVICE_PORTS, annotations=annotations),
        _scraping(name, namespace, labels),
    ]


def _scraping(name: str, namespace: str, labels: dict[str, str]) -> Manifest:
    return manifest(
        "pod_monitoring",
        name,
        namespace,
        labels=labels,
        spec={
            "endpoints": [{"interval": "15s", "path": "/metrics", "port": "metrics"}],
            "selector": {"matchLabels": {NAME_LABEL: name}},
        },
    )


def picker_args(
    namespace: str, pool: str, metrics: Metrics, *, is_highly_available: bool
) -> list[str]:
    """Returns the picker's command line; a metric that the engine has not got is the empty name.

    `--kv-cache-usage-percentage-metric` is not optional: v1.2.0 still asks for the name that vLLM
    removed (`vllm:gpu_cache_usage_perc`). Its metrics carry no prompt and no secret, so they need
    no token inside the cluster.
    """
    flags = [
        ("--pool-name", pool),
        ("--pool-namespace", namespace),
        ("--pool-group", api("inference_pool").group),
        ("--config-file", f"/config/{CONFIG_FILE}"),
        ("--total-queued-requests-metric", metrics.queue),
        ("--kv-cache-usage-percentage-metric", metrics.kv_cache or ""),
        ("--lora-info-metric", metrics.adapters or ""),
        ("--cache-info-metric", metrics.cache_info or ""),
        ("--zap-encoder", "json"),
        ("-v", "1"),
    ]
    args = [part for flag in flags for part in flag]
    args += ["--tracing=false", "--metrics-endpoint-auth=false", "--enable-pprof=false"]
    if is_highly_available:
        args.append("--ha-enable-leader-election")
    return args


def _pod(
    name: str,
    namespace: str,
    pool: str,
    picker: str,
    metrics: Metrics,
    *,
    is_highly_available: bool,
) -> Manifest:
    liveness, readiness = ("inference-extension", "inference-extension")
    if is_highly_available:
        liveness, readiness = ("liveness", "readiness")
    return {
        "containers": [
            {
                "args": picker_args(
                    namespace, pool, metrics, is_highly_available=is_highly_available
                ),
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
                "ports": [
                    {"containerPort": PORT, "name": "grpc"},
                    {"containerPort": HEALTH_PORT, "name": "grpc-health"},
                    {"containerPort": METRICS_PORT, "name": "metrics"},
                ],
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
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
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
