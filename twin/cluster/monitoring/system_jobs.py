"""Metrics that GKE itself sends to Cloud Monitoring, as jobs of the twin's Prometheus. Pure.

- kube-state series, from kube-state-metrics;
- the load balancer's, from Envoy's statistics, under the names that Cloud Monitoring's metrics have
  in PromQL (docs.cloud.google.com/load-balancing/docs/https/https-logging-monitoring);
- the accelerators' duty cycle, from the engines' metrics;
- the accelerators' memory, from the engines (`accelerator_memory.py`).
"""

from collections.abc import Mapping

from twin.cluster.monitoring.durations import Clock
from twin.wire.kube import JsonObject

KUBE_STATE_JOB = "kube-state-metrics"
LOAD_BALANCER_JOB = "load-balancer"
LOAD_BALANCER_FILE = "load-balancer.json"
EXTRA_FILES = "extra-*.json"
"""Targets of other parts of the twin: files in the folder of targets, with a label `job`."""
RESTART_COUNT = "kubernetes_io:container_restart_count"
RESTARTS = "kube_pod_container_status_restarts_total"
"""Not in GKE's packages: the job makes `RESTART_COUNT` from it."""
DUTY_CYCLE = "kubernetes_io:container_accelerator_duty_cycle"
MEMORY_TOTAL = "kubernetes_io:container_accelerator_memory_total"
MEMORY_USED = "kubernetes_io:container_accelerator_memory_used"
_ACCELERATOR_INTERVAL = "1m"
_KUBE_STATE_INTERVAL = "30s"
_LOAD_BALANCER_INTERVAL = "1m"
_EXTRA_INTERVAL = "15s"
_PUBSUB_INTERVAL = "1m"
_UPTIME_INTERVAL = "1m"
_PREFIXES = {
    "gke-l7-rilb": "https_internal",
    "gke-l7-cross-regional-internal-managed-mc": "https_internal",
    "gke-l7-regional-external-managed": "https_external_regional",
}
_OF_ENVOY = {
    "envoy_http_downstream_rq_xx": "request_count",
    "envoy_http_downstream_rq_time": "total_latencies",
    "envoy_cluster_upstream_rq_xx": "backend_request_count",
    "envoy_cluster_upstream_rq_time": "backend_latencies",
    "envoy_http_downstream_cx_rx_bytes_total": "request_bytes_count",
    "envoy_http_downstream_cx_tx_bytes_total": "response_bytes_count",
}
_CALL_OUTS = "(picker|extension)/.*"  # pickers and routers are asked by it, and are no backends
_GLOBAL = "global"
_PARTS = "(|_bucket|_count|_sum)"


def metric_prefix(gateway_class: str) -> str:
    """Return the prefix of a load balancer's metric names in PromQL."""
    return f"loadbalancing_googleapis_com:{_PREFIXES.get(gateway_class, 'https')}_"


def kube_state_job(address: str, clock: Clock, cluster: dict[str, str]) -> JsonObject:
    """Return the job of the kube-state series; their own labels take precedence, as on GKE."""
    labels = {**cluster, "instance": "kube-state-metrics-0:k8s-objects"}
    return {
        "job_name": KUBE_STATE_JOB,
        "honor_labels": True,
        "scrape_interval": clock.interval(_KUBE_STATE_INTERVAL),
        "scrape_timeout": clock.interval(_KUBE_STATE_INTERVAL),
        "static_configs": [{"targets": [address], "labels": labels}],
        "metric_relabel_configs": _restarts(),
    }


def _restarts() -> list[JsonObject]:
    """Turn the restarts of kube-state-metrics into GKE's system metric, with its labels."""
    copied = {
        "cluster": "cluster_name",
        "container": "container_name",
        "namespace": "namespace_name",
        "pod": "pod_name",
    }
    base = {"separator": ";", "regex": f"{RESTARTS};(.+)"}
    labels = [
        {**base, "source_labels": ["__name__", theirs], "target_label": ours}
        for theirs, ours in copied.items()
    ]
    only = {"source_labels": ["__name__"], "regex": RESTARTS}
    return [
        *labels,
        {**only, "replacement": "k8s_container", "target_label": "monitored_resource"},
        {**only, "replacement": RESTART_COUNT, "target_label": "__name__"},
    ]


def load_balancer_job(folder: str, clock: Clock) -> JsonObject:
    """Return the job that scrapes every gateway's Envoy and renames its series to Google's names.

    Latencies are in milliseconds in both; `response_code_class` is 200, 300 and so on.
    """
    interval = clock.interval(_LOAD_BALANCER_INTERVAL)
    return {
        "job_name": LOAD_BALANCER_JOB,
        "metrics_path": "/stats/prometheus",
        "params": {"usedonly": [""]},
        "scrape_interval": interval,
        "scrape_timeout": interval,
        "file_sd_configs": [{"files": [f"{folder}/{LOAD_BALANCER_FILE}"]}],
        "metric_relabel_configs": _googles_names(),
    }


def _googles_names() -> list[JsonObject]:
    """Keep the series that Google's load balancers export, under their names and labels."""
    rename = [
        {
            "source_labels": ["__name__", "metric_prefix"],
            "separator": ";",
            "regex": f"{theirs}{_PARTS};(.*)",
            "replacement": f"${{2}}{ours}${{1}}",
            "target_label": "__name__",
        }
        for theirs, ours in _OF_ENVOY.items()
    ]
    return [
        {
            "source_labels": ["__name__"],
            "regex": f"({'|'.join(_OF_ENVOY)}){_PARTS}",
            "action": "keep",
        },
        {
            "source_labels": ["envoy_http_conn_manager_prefix"],
            "regex": "admin",
            "action": "drop",
        },
        {
            "source_labels": ["envoy_cluster_name"],
            "regex": _CALL_OUTS,
            "action": "drop",
        },
        *rename,
        {
            "source_labels": ["envoy_response_code_class"],
            "regex": "(.+)",
            "replacement": "${1}00",
            "target_label": "response_code_class",
        },
        {
            "source_labels": ["envoy_cluster_name"],
            "regex": "(.+)",
            "target_label": "backend_name",
        },
        *_names_of_fronts(),
        {"regex": "metric_prefix|envoy_.*", "action": "labeldrop"},
    ]


def _names_of_fronts() -> list[JsonObject]:
    """Name global load balancers, of which one Envoy serves all, after their listeners."""
    return [
        {
            "source_labels": ["region", "envoy_http_conn_manager_prefix"],
            "separator": ";",
            "regex": f"{_GLOBAL};(.+)",
            "target_label": label,
        }
        for label in ("forwarding_rule_name", "url_map_name")
    ]


def front_targets(address: str | None, project: str) -> list[JsonObject]:
    """Return the target of the cloud's global load balancers, if there are some.

    Args:
        address: Envoy's admin address; None if there is no global load balancer.
        project: Project of the cluster.
    """
    if address is None:
        return []
    prefix = "loadbalancing_googleapis_com:https_"
    labels = {"metric_prefix": prefix, "project_id": project, "region": _GLOBAL}
    return [{"targets": [address], "labels": labels}]


def load_balancer_series(gateway_class: str) -> frozenset[str]:
    """Return the names of the series that a load balancer of a class can write."""
    prefix = metric_prefix(gateway_class)
    histograms = ("latencies",)
    return frozenset(
        f"{prefix}{name}{part}"
        for name in _OF_ENVOY.values()
        for part in (("_bucket", "_count", "_sum") if name.endswith(histograms) else ("",))
    )


def load_balancer_targets(
    gateways: Mapping[tuple[str, str], tuple[str, str]], cluster: dict[str, str]
) -> list[JsonObject]:
    """Return the targets of gateways: (namespace, name) to (gateway class, Envoy's admin address).

    A load balancer is named after its Gateway, with the namespace as a prefix. Its series have a
    project and a region, but no cluster.
    """
    region = "-".join(cluster["location"].split("-")[:2])
    return [
        {
            "targets": [address],
            "labels": {
                "forwarding_rule_name": f"{namespace}-{name}",
                "metric_prefix": metric_prefix(gateway_class),
                "project_id": cluster["project_id"],
                "region": region,
                "url_map_name": f"{namespace}-{name}",
            },
        }
        for (namespace, name), (gateway_class, address) in sorted(gateways.items())
    ]


def pubsub_job(address: str, clock: Clock) -> JsonObject:
    """Return the job of Pub/Sub's metrics (rule metrics.pubsub), which keep their own labels."""
    interval = clock.interval(_PUBSUB_INTERVAL)
    labels = {"monitored_resource": "pubsub_subscription"}
    return {
        "job_name": "pubsub",
        "honor_labels": True,
        "scrape_interval": interval,
        "scrape_timeout": interval,
        "static_configs": [{"targets": [address], "labels": labels}],
    }


def uptime_job(address: str, clock: Clock) -> JsonObject:
    """Return the job of uptime checks (rule monitoring.uptime), which keep their own labels."""
    interval = clock.interval(_UPTIME_INTERVAL)
    return {
        "job_name": "uptime",
        "honor_labels": True,
        "scrape_interval": interval,
        "scrape_timeout": interval,
        "static_configs": [{"targets": [address], "labels": {"monitored_resource": "uptime_url"}}],
    }


def accelerator_job(address: str, clock: Clock) -> JsonObject:
    """Return the job of the accelerators' memory (rule monitoring.accelerator-memory)."""
    interval = clock.interval(_ACCELERATOR_INTERVAL)
    labels = {"monitored_resource": "k8s_container"}
    return {
        "job_name": "accelerators",
        "honor_labels": True,
        "scrape_interval": interval,
        "scrape_timeout": interval,
        "static_configs": [{"targets": [address], "labels": labels}],
    }


def extra_job(folder: str, clock: Clock) -> JsonObject:
    """Return the job for targets of other parts of the twin."""
    interval = clock.interval(_EXTRA_INTERVAL)
    return {
        "job_name": "extra",
        "honor_labels": True,
        "scrape_interval": interval,
        "scrape_timeout": interval,
        "file_sd_configs": [{"files": [f"{folder}/{EXTRA_FILES}"]}],
    }


def system_rules(clock: Clock) -> dict[str, list[JsonObject]]:
    """Return the rule file of the series that GKE has without scraping.

    An accelerator counts as busy whenever its engine has a request. The duty cycle shows no more
    than that, so nothing scales on it.
    """
    busy = "(vllm:num_requests_running > bool 0)"
    expression = f"100 * avg by (project_id, location, cluster, namespace, pod) {busy}"
    for ours, theirs in (
        ("pod", "pod_name"),
        ("namespace", "namespace_name"),
        ("cluster", "cluster_name"),
    ):
        expression = f'label_replace({expression}, "{theirs}", "$1", "{ours}", "(.+)")'
    rule = {
        "record": DUTY_CYCLE,
        "expr": expression,
        "labels": {"monitored_resource": "k8s_container"},
    }
    return {"groups": [{"name": "gke-system", "interval": clock.interval("1m"), "rules": [rule]}]}
