"""Alert and dashboard settings of one platform, for the tests of both."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from gke_inference.observability.dashboards import ObservedModelArgs
from gke_inference.observability.promql import ModelFacts, Scope

CALLOUT = Path(__file__).parents[3] / "workloads" / "gateway" / "callout"
_BATCHES = Path(__file__).parents[3] / "workloads" / "batch"
BATCH_METRICS = {
    name + suffix
    for name in re.findall(r'"(gke_inference_batch_\w+)"', (_BATCHES / "metrics.py").read_text())
    for suffix in ("", "_total")
}
"""What the service of batches and its workers export, as their source says it."""
_STREAMS = Path(__file__).parents[3] / "workloads" / "stream" / "metrics.py"
STREAM_METRICS = set(re.findall(r'"(gke_inference_stream_\w+)"', _STREAMS.read_text()))
"""What workers of streams export, as their source says it."""
CALLOUT_METRICS = set(
    re.findall(r'"(callout_\w+)"', (CALLOUT / "internal/usage/metrics.go").read_text())
)
"""What the gate of clients exports: its own source says it."""
ROUTER = Path(__file__).parents[3] / "workloads" / "gateway" / "router" / "internal"
ROUTER_METRICS = set(
    re.findall(r'"(body_router_\w+)"', (ROUTER / "routing" / "metrics.go").read_text())
)
"""What the body router exports, as its source says it."""
RELAY = Path(__file__).parents[3] / "workloads" / "gateway" / "relay" / "internal"
RELAY_METRICS = {
    name
    for file in (
        RELAY / "relay" / "metrics.go",
        RELAY / "fallback" / "gate.go",
        RELAY / "waiting" / "room.go",
    )
    for name in re.findall(r'"(relay_\w+)"', file.read_text())
}
"""What relays export, as their source says it."""

SCOPE = Scope(
    models=(
        ModelFacts(
            clusters=("acme-prod-us-central1",),
            deployments=("llama-tpu", "llama-gpu"),
            job="llama",
            picker_limit_mib=1024,
            prices={"llama-gpu": 0.8, "llama-tpu": 10.8},
            tpot_p95_ms=40,
            ttft_p95_ms=500,
        ),
        ModelFacts(
            clusters=("acme-prod-us-central1",),
            deployments=("embedder-gpu",),
            is_picked=False,
            job="embedder",
        ),
        ModelFacts(
            clusters=("acme-prod-us-central1",),
            deployments=("rare-gpu",),
            is_from_zero=True,
            is_picked=False,
            job="rare",
        ),
    ),
    namespace="models",
    cost_limit_usd_per_hour=50,
    body_router="acme-prod-body-router",
    has_backends=True,
    has_batches=True,
    has_clients=True,
    has_guards=True,
    has_fallbacks=True,
    kafka_streams=("letters",),
    personal="acme-personal",
    queue_clusters=("acme-prod-us-central1",),
    subscriptions=("docs",),
    hostname="models.example.com",
)

MIXED = replace(
    SCOPE,
    models=(
        replace(SCOPE.models[0], has_kv_tiers=True),
        *SCOPE.models[1:],
        ModelFacts(
            clusters=("acme-prod-us-central1",),
            deployments=("qwen-gpu",),
            engine="sglang",
            job="qwen",
            prices={"qwen-gpu": 2.0},
            ttft_p95_ms=500,
        ),
        ModelFacts(
            clusters=("acme-prod-us-central1",),
            deployments=("flux-tpu",),
            engine="diffusion",
            is_picked=False,
            job="flux",
        ),
        ModelFacts(
            clusters=("acme-prod-us-central1",),
            deployments=("mistral-gpu",),
            engine="tgi",
            job="mistral",
            tpot_p95_ms=40,
        ),
        ModelFacts(
            clusters=("acme-prod-us-central1",),
            deployments=("gemma-gpu",),
            engine="triton",
            job="gemma",
        ),
        ModelFacts(
            clusters=("acme-prod-us-central1",),
            deployments=("fraud-gpu",),
            engine="tritonserver",
            is_picked=False,
            job="fraud",
            predict_seconds=10,
        ),
    ),
)
"""The same with models of other engines."""


def model() -> ObservedModelArgs:
    return {
        "clusters": ["acme-prod-us-central1"],
        "deployments": ["llama-tpu", "llama-gpu"],
        "job": "llama",
        "prices": {"llama-tpu": 10.8},
        "tpot_p95_ms": 40,
        "ttft_p95_ms": 500,
    }


def args(**changes: Any) -> Any:
    """What `Dashboards` and `Alerts` both take."""
    return {
        "exposure": "external",
        "models": [model()],
        "namespace": "models",
        "project": "acme-prod",
        "title": "acme prod",
        **changes,
    }
