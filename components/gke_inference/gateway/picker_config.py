"""The configuration file of an endpoint picker of the line `gie`.

Plugin types and parameters: gateway-api-inference-extension v1.5.0 (cmd/epp/runner, pkg/epp).
"""

from dataclasses import dataclass

import yaml

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.engines import DEFAULT_ENGINE, Metrics, engine
from gke_inference.catalogue.pickers import GIE, picker_line
from gke_inference.catalogue.versions import api

# Chosen in the routing laboratory: docs/adr/0083-a-full-replica-gets-no-more-requests.md. KV cache
# use tells small hardware from large in one pool, and queues do not: they are empty until a replica
# is lost.
_WEIGHTS = {"queue-scorer": 1, "kv-cache-utilization-scorer": 3, "prefix-cache-scorer": 3}
# A request in the wrong batch waits for an adapter's slot, so adapters weigh more than a prefix.
_ADAPTER_WEIGHTS = {
    "queue-scorer": 2,
    "kv-cache-utilization-scorer": 2,
    "prefix-cache-scorer": 3,
    "lora-affinity-scorer": 4,
}
# The picker compares metric names by the engine's name. One pool has one engine, the default.
_ENGINE = "engine"
_BLOCK_TOKENS = 16
# 262,144 tokens in blocks of 16. Sessions of agents share a system prompt of more than 256 blocks,
# which is upstream's default: with that, the picker cannot tell them apart.
_MOST_BLOCKS = 16_384
_FAIRNESS = "round-robin-fairness-policy"
_SESSIONS = "slo-deadline-ordering-policy"
"""Orders the queue of a team by arrival and `x-slo-ttft-ms` (`x-llm-d-slo-ttft-ms`), in which a
client gate puts how much later a request goes (docs/adr/0094-turns-of-programs-and-sessions.md)."""
_DETECTOR = "utilization-detector"
_FULL = "full-replicas"
# A full replica lets requests of its prefixes wait for whole answers while others have room. With
# fewer waiting requests, they wait for no more than the next steps.
_WAITING_WHEN_FULL = 16
_KV_WHEN_FULL = 1.0
# A replica whose metrics are older gets no requests. The picker reads them every 50 ms.
_STALE = "2s"
# A replica has room while no request waits in it, so that the others wait in the picker, in turn.
_WAITING_IN_ENGINE = 1
# The picker sends on one request per millisecond until it reads new metrics, which it does every
# 50 ms. Metrics older than this count as "no room", which limits what it sends on blindly
# (docs/adr/0049-picker-release-and-fairness.md).
_FRESH = "3ms"
_QUEUED_BYTES = "256Mi"
"""Bodies of waiting requests, per priority. The picker's container has 4 GiB."""


@dataclass(frozen=True)
class FlowControl:
    """Requests wait in the picker, one queue for each client, until a replica has room."""

    max_wait_seconds: int
    """Seconds after which the picker rejects a waiting request."""
    max_requests: int | None = None
    """Most waiting requests of a priority. Line `llm-d-router` only, whose default is 5,000."""
    orders_sessions: bool = False
    """Whether a client's queue has the order that a client gate gives it. Default: by arrival."""


def picker_config(
    *, has_adapters: bool, metrics: Metrics | None = None, flow: FlowControl | None = None
) -> str:
    """Return the EndpointPickerConfig as YAML, with scorers for the engine's metrics.

    The prefix index tunes itself: it reads block size and cache size from the engine's
    `vllm:cache_config_info`, so the two always match. The configured numbers apply until the first
    scrape, or always with another engine.
    """
    names = metrics or engine(DEFAULT_ENGINE).metrics
    knows_adapters = has_adapters and names.adapters is not None
    deciding, profile = scoring(names, has_adapters=has_adapters)
    plugins: list[Manifest] = [
        {"type": "core-metrics-extractor", "parameters": metric_names(names, knows_adapters)},
        {
            "type": "approx-prefix-cache-producer",
            "parameters": {
                "autoTune": names.cache_info is not None,
                "blockSizeTokens": _BLOCK_TOKENS,
                "lruCapacityPerServer": 31250,
                "maxPrefixBlocksToMatch": _MOST_BLOCKS,
            },
        },
        *deciding,
    ]
    kind = api(picker_line(GIE).apis["config"])
    document: Manifest = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "plugins": plugins,
        "schedulingProfiles": [{"name": "default", "plugins": profile}],
    }
    if flow is not None:
        plugins += flow_plugins(flow)
        document |= _flow_settings(flow)
    return yaml.safe_dump(document, sort_keys=False)


def scoring(metrics: Metrics, *, has_adapters: bool) -> tuple[list[Manifest], list[Manifest]]:
    """Return the filter and scorers that choose a replica, and the profile that uses them.

    Both lines of the picker have these plugins (llm-d-router v0.10.0,
    pkg/epp/framework/plugins/flowcontrol/saturationdetector/utilization).
    """
    weights = scorer_weights(metrics, has_adapters=has_adapters)
    plugins: list[Manifest] = [{"type": name} for name in weights]
    profile: list[Manifest] = [
        {"pluginRef": name, "weight": weight} for name, weight in weights.items()
    ]
    if not has_adapters or metrics.adapters is None:
        plugins.append(_limit())
        profile.insert(0, {"pluginRef": _FULL})
    return plugins, profile


def scorer_weights(metrics: Metrics, *, has_adapters: bool) -> dict[str, int]:
    """Return the weights of the scorers for which the engine has metrics."""
    knows_adapters = has_adapters and metrics.adapters is not None
    weights = dict(_ADAPTER_WEIGHTS if knows_adapters else _WEIGHTS)
    if metrics.kv_cache is None:
        del weights["kv-cache-utilization-scorer"]
    return weights


def metric_names(names: Metrics, knows_adapters: bool) -> Manifest:
    """Return the parameters of the metrics extractor. An empty name is not read."""
    return {
        "defaultEngine": _ENGINE,
        "engineConfigs": [
            {
                "name": _ENGINE,
                "queuedRequestsSpec": names.queue,
                "runningRequestsSpec": names.running or "",
                "kvUsageSpec": names.kv_cache or "",
                "loraSpec": (names.adapters or "") if knows_adapters else "",
                "cacheInfoSpec": names.cache_info or "",
            }
        ],
    }


def _limit() -> Manifest:
    """Return the filter that leaves out full replicas, unless all are full.

    A pool with adapters has none: there, it costs more slots of adapters than it saves time
    (docs/adr/0083-a-full-replica-gets-no-more-requests.md).
    """
    return {
        "name": _FULL,
        "type": _DETECTOR,
        "parameters": {
            "queueDepthThreshold": _WAITING_WHEN_FULL,
            "kvCacheUtilThreshold": _KV_WHEN_FULL,
            "metricsStalenessThreshold": _STALE,
        },
    }


def flow_plugins(flow: FlowControl) -> list[Manifest]:
    """Return the policies of turns, and at the end the detector of a full pool."""
    return [
        {"type": _FAIRNESS},
        *([{"type": _SESSIONS}] if flow.orders_sessions else []),
        {
            "type": _DETECTOR,
            "parameters": {
                "queueDepthThreshold": _WAITING_IN_ENGINE,
                "metricsStalenessThreshold": _FRESH,
            },
        },
    ]


def _flow_settings(flow: FlowControl) -> Manifest:
    """Return the settings of the queues.

    Every priority has its own queues with the same policy, so priorities are not listed.
    """
    return {
        "featureGates": ["flowControl"],
        "flowControl": {
            "defaultPriorityBand": flow_band(flow),
            "defaultRequestTTL": f"{flow.max_wait_seconds}s",
        },
        "saturationDetector": {"pluginRef": _DETECTOR},
    }


def flow_band(flow: FlowControl) -> Manifest:
    """Return the template of the queues of a priority."""
    requests = {} if flow.max_requests is None else {"maxRequests": str(flow.max_requests)}
    order = {"orderingPolicyRef": _SESSIONS} if flow.orders_sessions else {}
    return {
        "priority": 0,  # required, and without effect in the template of all priorities
        "fairnessPolicyRef": _FAIRNESS,
        "maxBytes": _QUEUED_BYTES,
        **order,
        **requests,
    }
