"""Alert and dashboard settings of one platform, for the tests of both."""

from dataclasses import replace
from typing import Any

from gke_inference.observability.dashboards import ObservedModelArgs
from gke_inference.observability.promql import ModelFacts, Scope

SCOPE = Scope(
    models=(
        ModelFacts(
            clusters=("acme-prod-us-central1",),
            deployments=("llama-tpu", "llama-gpu"),
            job="llama",
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
    ),
    namespace="models",
    cost_limit_usd_per_hour=50,
    has_backends=True,
    has_batches=True,
    has_clients=True,
    has_guards=True,
    has_fallbacks=True,
    kafka_streams=("letters",),
    personal="acme-personal",
    subscriptions=("docs",),
    hostname="models.example.com",
)

MIXED = replace(
    SCOPE,
    models=(
        *SCOPE.models,
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
