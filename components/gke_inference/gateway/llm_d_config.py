"""The configuration file, flags and sidecars of llm-d-router's endpoint picker.

Plugin types, parameters and flags: llm-d-router v0.10.0 (cmd/epp/runner, pkg/epp,
apix/config/v1alpha1; Apache-2.0). It refuses a parameter that a plugin does not have. What it
decides in another way than gateway-api-inference-extension v1.5.0 is in docs/pickers.md.
"""

from dataclasses import dataclass

import yaml

from gke_inference.base.manifests import HARDENED_CONTAINER, Manifest
from gke_inference.catalogue.engines import Metrics
from gke_inference.catalogue.pickers import LLM_D_ROUTER, picker_line
from gke_inference.catalogue.versions import api, image
from gke_inference.sizing.pickers import Resources

from .picker_config import (
    FlowControl,
    flow_band,
    flow_plugins,
    metric_names,
    scoring,
)
from .picker_roles import DECODE_WEIGHTS, PREFILL_WEIGHTS

DRAIN_SECONDS = 30
"""Time that a picker answers after its end was requested. Upstream's default."""
_BLOCK_TOKENS = 64
"""Smallest block that the index tunes itself to (llm-d-router pull request 1160)."""
_PREFIX_TOKENS = 131_072
"""Longest prefix that is compared. Upstream's default, which takes precedence over blocks."""
_PRODUCER = "approx-prefix-cache-producer"
_SESSIONS = "session-affinity-filter"
_SOURCE, _EXTRACTOR = "metrics-data-source", "core-metrics-extractor"
_TRAINER_PORT, _PREDICTOR_PORT = 8000, 8001
_TRAINER = Resources(2000, 4096)
_PREDICTOR = Resources(8000, 4096)
PREDICTION = Resources(
    _TRAINER.millicores + _PREDICTOR.millicores, _TRAINER.memory_mib + _PREDICTOR.memory_mib
)
"""Resources of both sidecars (config/charts/routerlib/values.yaml, latencyPredictor)."""
_TRAINER_LIMIT, _PREDICTOR_LIMIT = "8Gi", "8Gi"
_AFFINITY_MS = 5000
_TRAINING = {
    "LATENCY_MODEL_TYPE": "xgboost",
    "LATENCY_OBJECTIVE_TYPE": "mean",
    "LATENCY_RETRAINING_INTERVAL_SEC": "10",
    "LATENCY_MIN_SAMPLES_FOR_RETRAIN": "100",
    "LATENCY_MAX_TRAINING_DATA_SIZE_PER_BUCKET": "500",
}
"""Values of the chart (config/charts/routerlib/values.yaml)."""
_WORKERS = "28"


@dataclass(frozen=True)
class Sessions:
    """Requests of a session go to the replica that answered its last one."""

    header: str
    idle_seconds: int


@dataclass(frozen=True)
class Routing:
    """What this line can do and `gie` cannot. All of it is off by default."""

    drain_seconds: int = DRAIN_SECONDS
    predicts_latency: bool = False
    sessions: Sessions | None = None


def llm_d_flags(routing: Routing) -> list[str]:
    """Return the flags that only this line has.

    The filter of sessions is alpha in v0.10.0, and loads only with the permission for such plugins.
    """
    flags = [f"--drain-timeout={routing.drain_seconds}s"]
    if routing.sessions is not None:
        flags.append("--allow-experimental-plugins")
    return flags


def llm_d_config(
    metrics: Metrics,
    routing: Routing,
    *,
    has_adapters: bool,
    flow: FlowControl | None = None,
    threshold_tokens: int | None = None,
) -> str:
    """Return the EndpointPickerConfig as YAML.

    Args:
        metrics: Metrics of the engine.
        routing: Features of this line.
        has_adapters: Whether the pool has LoRA adapters.
        flow: Queues of clients in the picker. Default: none.
        threshold_tokens: As in `roles_config`: the pool has prefill and decode replicas.
    """
    kind = api(picker_line(LLM_D_ROUTER).apis["config"])
    plugins = [*_readers(metrics, has_adapters), _prefixes(metrics)]
    profiles: list[Manifest]
    if threshold_tokens is not None:
        plugins += _roles(threshold_tokens)
        profiles = [_profile("prefill", PREFILL_WEIGHTS), _profile("decode", DECODE_WEIGHTS)]
    elif routing.predicts_latency:
        predicting = _predicting()
        plugins += predicting
        profiles = [{"name": "default", "plugins": _order(predicting)}]
    else:
        deciding, chosen = scoring(metrics, has_adapters=has_adapters)
        plugins += deciding
        profiles = [{"name": "default", "plugins": chosen}]
    if routing.sessions is not None:
        plugins.append(_session_filter(routing.sessions))
        profiles[0]["plugins"].insert(0, {"pluginRef": _SESSIONS})
    reading: Manifest = {"pluginRef": _SOURCE, "extractors": [{"pluginRef": _EXTRACTOR}]}
    document: Manifest = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "plugins": plugins,
        "dataLayer": {"sources": [reading]},
        "schedulingProfiles": profiles,
    }
    if flow is not None:
        deciding_turns = flow_plugins(flow)
        plugins += deciding_turns
        document["featureGates"] = ["flowControl"]
        document["flowControl"] = {
            "defaultPriorityBand": flow_band(flow),
            "defaultRequestTTL": f"{flow.max_wait_seconds}s",
            "saturationDetector": {"pluginRef": deciding_turns[-1]["type"]},
        }
    return yaml.safe_dump(document, sort_keys=False)


def predictor_sidecars() -> list[Manifest]:
    """Return the containers that learn and predict the latency of requests.

    They are those of the chart (config/charts/routerlib/templates/_latency-predictor.tpl).
    """
    trainer: Manifest = {
        "env": _variables(
            {**_TRAINING, **_models("/models"), "SERVER_TYPE": "training"}, with_pod=True
        ),
        "image": image("latency_trainer").reference,
        "livenessProbe": _probe("/healthz", _TRAINER_PORT),
        "name": "latency-trainer",
        "ports": [{"containerPort": _TRAINER_PORT, "name": "training"}],
        "readinessProbe": _probe("/readyz", _TRAINER_PORT),
        "resources": _resources(_TRAINER, _TRAINER_LIMIT),
        "securityContext": HARDENED_CONTAINER,
        "volumeMounts": [{"mountPath": "/models", "name": "latency-trainer"}],
    }
    predictor: Manifest = {
        "args": [
            "llm_d_latency_predictor.prediction_server:app",
            "--host",
            "0.0.0.0",  # noqa: S104 - the probes call it
            "--port",
            str(_PREDICTOR_PORT),
        ],
        "command": ["uvicorn"],
        "env": _variables(
            {
                "LATENCY_MODEL_TYPE": _TRAINING["LATENCY_MODEL_TYPE"],
                "LATENCY_OBJECTIVE_TYPE": _TRAINING["LATENCY_OBJECTIVE_TYPE"],
                **_models("/server_models", "LOCAL"),
                "MODEL_SYNC_INTERVAL_SEC": "30",
                "OMP_NUM_THREADS": "1",
                "PREDICT_HOST": "0.0.0.0",  # noqa: S104 - as above
                "PREDICT_PORT": str(_PREDICTOR_PORT),
                "SERVER_TYPE": "prediction-1",
                "TRAINING_SERVER_URL": f"http://localhost:{_TRAINER_PORT}",
                "UVICORN_WORKERS": _WORKERS,
            },
            with_pod=True,
        ),
        "image": image("latency_predictor").reference,
        "livenessProbe": _probe("/healthz", _PREDICTOR_PORT),
        "name": "latency-predictor",
        "ports": [{"containerPort": _PREDICTOR_PORT, "name": "predict"}],
        "readinessProbe": _probe("/readyz", _PREDICTOR_PORT),
        "resources": _resources(_PREDICTOR, _PREDICTOR_LIMIT),
        "securityContext": HARDENED_CONTAINER,
        "volumeMounts": [{"mountPath": "/server_models", "name": "latency-predictor"}],
    }
    return [trainer, predictor]


def predictor_volumes() -> list[Manifest]:
    """Return the volumes of the sidecars."""
    return [
        {"emptyDir": {"sizeLimit": "20Gi"}, "name": "latency-trainer"},
        {"emptyDir": {"sizeLimit": "10Gi"}, "name": "latency-predictor"},
    ]


def predictor_environment() -> list[Manifest]:
    """Return the variables through which the picker finds the sidecars."""
    return _variables(
        {
            "PREDICTION_SERVER_URL": f"http://localhost:{_PREDICTOR_PORT}",
            "TRAINING_SERVER_URL": f"http://localhost:{_TRAINER_PORT}",
            "LATENCY_MAX_SAMPLE_SIZE": "10000",
            "LATENCY_MAX_CONCURRENT_DISPATCHES": "36",
            "LATENCY_COALESCE_WINDOW_MS": "1",
        }
    )


def _readers(metrics: Metrics, has_adapters: bool) -> list[Manifest]:
    knows = has_adapters and metrics.adapters is not None
    return [{"type": _SOURCE}, {"type": _EXTRACTOR, "parameters": metric_names(metrics, knows)}]


def _prefixes(metrics: Metrics) -> Manifest:
    parameters: Manifest = {
        "autoTune": metrics.cache_info is not None,
        "blockSizeTokens": _BLOCK_TOKENS,
        "lruCapacityPerServer": 31250,
        "maxPrefixTokensToMatch": _PREFIX_TOKENS,
    }
    return {"type": _PRODUCER, "parameters": parameters}


def _weighted(weights: dict[str, int]) -> list[Manifest]:
    return [{"pluginRef": name, "weight": weight} for name, weight in weights.items()]


def _profile(role: str, weights: dict[str, int]) -> Manifest:
    picker: Manifest = {"pluginRef": "max-score-picker"}
    return {
        "name": role,
        "plugins": [{"pluginRef": f"{role}-filter"}, *_weighted(weights), picker],
    }


def _roles(threshold_tokens: int) -> list[Manifest]:
    """Return the plugins of prefill and decode replicas.

    The decider by prefix takes 0 as "never", where the picker v0.4.0 took it as "always".
    """
    decider: Manifest = {"type": "always-disagg-pd-decider"}
    if threshold_tokens:
        parameters = {"nonCachedTokens": threshold_tokens}
        decider = {"type": "prefix-based-pd-decider", "parameters": parameters}
    return [
        *({"type": name} for name in (*DECODE_WEIGHTS, "prefill-filter", "decode-filter")),
        {"type": "max-score-picker"},
        decider,
        {
            "type": "disagg-profile-handler",
            "parameters": {"deciders": {"prefill": decider["type"]}},
        },
    ]


def _predicting() -> list[Manifest]:
    """Return the plugins of predicted latency, for requests with SLO headers.

    llm-d's guide to predicted latency (guides/predicted-latency-routing, the values with SLOs): a
    strict and a loose filter of prefixes around the filter of headroom. `streamingMode` predicts
    the time per token, which needs streamed answers.
    """

    def affinity(name: str, threshold: float) -> Manifest:
        return {
            "name": f"{name}-affinity-filter",
            "type": "prefix-cache-affinity-filter",
            "parameters": {
                "affinityThreshold": threshold,
                "maxTTFTPenaltyMs": _AFFINITY_MS,
                "ttftSource": "latencyPredictor",
            },
        }

    return [
        {"type": "predicted-latency-producer", "parameters": {"streamingMode": True}},
        affinity("strict", 0.99),
        {"type": "slo-headroom-tier-filter"},
        affinity("loose", 0.8),
        {"type": "latency-scorer"},
        {"type": "weighted-random-picker"},
        {"type": "latency-slo-admitter"},
    ]


def _order(predicting: list[Manifest]) -> list[Manifest]:
    """Return the plugins of the profile: all but the producer and the admitter, in order."""
    return [{"pluginRef": each.get("name", each["type"])} for each in predicting[1:-1]]


def _session_filter(sessions: Sessions) -> Manifest:
    return {
        "type": _SESSIONS,
        "parameters": {
            "strategy": "session_id",
            "sessionIdConfig": {
                "sources": [{"header": sessions.header}],
                "evictionTtlSeconds": sessions.idle_seconds,
            },
        },
    }


def _models(folder: str, prefix: str = "LATENCY") -> dict[str, str]:
    files = {"MODEL": "", "SCALER": "_scaler"}
    return {
        f"{prefix}_{kind.upper()}_{what}_PATH": f"{folder}/{kind}{suffix}.joblib"
        for kind in ("ttft", "tpot")
        for what, suffix in files.items()
    }


def _variables(values: dict[str, str], *, with_pod: bool = False) -> list[Manifest]:
    pod = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    found: list[Manifest] = [{"name": name, "value": value} for name, value in values.items()]
    return [*found, *([pod] if with_pod else [])]


def _probe(path: str, port: int) -> Manifest:
    return {"httpGet": {"path": path, "port": port}, "failureThreshold": 30, "periodSeconds": 10}


def _resources(wanted: Resources, limit: str) -> Manifest:
    return {
        "limits": {"memory": limit},
        "requests": {"cpu": f"{wanted.millicores}m", "memory": f"{wanted.memory_mib}Mi"},
    }
