from typing import Any

import pytest

RESERVED: Any = {
    "accelerator": "tpu-v6e",
    "provisioning": "reservation",
    "reservation": "v6e-prod",
    "topology": "2x2",
}
L4: Any = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}
L4_SPOT: Any = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "spot"}


@pytest.fixture
def args() -> dict[str, Any]:
    """A model of 8 billion parameters on TPU v6e with L4 behind it."""
    return {
        "adapters": {"sql": "gs://acme-models/llama/adapters/sql"},
        "cache_bucket": "acme-caches",
        "compute_classes": {"tpu": "chat-tpu", "gpu": "chat-gpu", "any": "chat"},
        "context": 8192,
        "model": "llama-8b",
        "namespace": "serving",
        "size": {"parameters_billion": 8.0},
        "replicas": {"min": 2, "max": 2},
        "rungs": [RESERVED, L4, L4_SPOT],
        "served_name": "llama-3.1-8b",
        "service_account": "llama-8b",
        "weights": "gs://acme-models/llama",
    }


@pytest.fixture
def gpu_only(args) -> dict[str, Any]:
    """The same model on L4 alone."""
    alone = {key: value for key, value in args.items() if key != "cache_bucket"}
    return {**alone, "rungs": [L4, L4_SPOT]}


@pytest.fixture
def dual(args) -> dict[str, Any]:
    """The same model in one pod for both, on pools made by hand."""
    rungs = [{**RESERVED, "node_pools": ["v6e"]}, {**L4, "node_pools": ["l4"]}]
    return {**args, "form": "dual-container", "rungs": rungs}
