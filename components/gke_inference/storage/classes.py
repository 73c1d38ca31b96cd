"""Lifecycle rules that move objects to colder storage classes with age."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from pulumi_gcp import storage

from gke_inference.catalogue.files.buckets import MINIMUM_DAYS


def step_rules(
    steps: Iterable[tuple[str, int]], condition: Mapping[str, Any] | None = None
) -> "list[storage.BucketLifecycleRuleArgsDict]":
    """Return the rules that move objects to colder classes.

    Args:
        steps: Storage classes, each with the age in days from which it applies.
        condition: Condition of each rule besides the age.
    """
    return [
        {
            "action": {"storage_class": cold.upper(), "type": "SetStorageClass"},
            "condition": cast("Any", {"age": days, **(condition or {})}),
        }
        for cold, days in steps
        if cold in MINIMUM_DAYS
    ]
