"""Names of models beside the names of another model's objects."""

import json

from infra.reading.load import parse
from tests.contract.infra.broken_stacks import edited

SLICE = {"accelerator": "tpu-v6e", "topology": "4x4", "provisioning": "on-demand"}
GPUS = {
    "accelerator": "nvidia-h100-80gb",
    "count": 8,
    "hosts": 2,
    "network": "tcp",
    "provisioning": "on-demand",
}


def test_a_model_may_begin_like_the_groups_of_another_which_are_counted_by_their_numbers():
    name = "llama-3.1-70b-tpu-chat"
    other = {
        "capacity": "both",
        "context": 8192,
        "replicas": {"min": 1, "max": 2},
        "size": {"parameters_billion": 70.6},
        "weights": "other",
    }
    paired = {"min": 1, "max": 3, "standby": 1}
    edits = [
        {"at": ["capacity", "both"], "value": {"rungs": [SLICE, GPUS]}},
        {"at": ["models", "llama-3.1-70b", "capacity"], "value": "both"},
        {"at": ["models", "llama-3.1-70b", "form"], "value": "paired"},
        {"at": ["models", "llama-3.1-70b", "replicas"], "value": paired},
        {"at": ["models", name], "value": other},
        {"at": ["capacity", "slices"], "remove": True},
    ]
    assert name in parse(json.dumps(edited("multi-host/slices", edits))).models
