"""Compute classes for tests of operators."""

from collections.abc import Mapping
from typing import Any

from gke_inference.capacity.compute_class_rules import class_object
from gke_inference.catalogue.rungs import check_rung
from twin.wire.kube import JsonObject


def class_of(name: str, rung: Mapping[str, Any]) -> JsonObject:
    """Return a compute class with one rung."""
    return class_object(
        name,
        [check_rung(rung, region="us-east5")],
        image_disk=None,
        is_moving_back=False,
        max_pods_per_node=32,
        node_service_account="nodes@acme.iam.gserviceaccount.com",
        when_unsatisfiable="DoNotScaleUp",
    )
