"""Lifecycle rules that move objects to colder storage classes with age."""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_gcp import storage

from gke_inference.base.inputs import whole
from gke_inference.catalogue.files.buckets import MINIMUM_DAYS

LONGEST_DAYS = 36_500
"""Maximum age in a lifecycle rule of ours."""


def class_rules(
    args: Mapping[str, object], most_days: int, condition: Mapping[str, Any] | None = None
) -> "tuple[list[storage.BucketLifecycleRuleArgsDict], int]":
    """Return the rules for `nearline_after_days` to `archive_after_days`, and the last age.

    Args:
        args: Inputs of a component, with these keys.
        most_days: Maximum age.
        condition: Condition of each rule besides the age.

    Raises:
        pulumi.InputPropertyError: An age is out of range, or not above that of a warmer class.
    """
    rules: list[storage.BucketLifecycleRuleArgsDict] = []
    last = 0
    for cold in MINIMUM_DAYS:
        field = f"{cold}_after_days"
        if args.get(field) is None:
            continue
        days = whole(args, field, 0, least=1, most=most_days)
        if days <= last:
            raise pulumi.InputPropertyError(f"{cold}AfterDays", f"must be above {last}, got {days}")
        action: storage.BucketLifecycleRuleActionArgsDict = {
            "storage_class": cold.upper(),
            "type": "SetStorageClass",
        }
        only: Any = {"age": days, **(condition or {})}
        rules.append({"action": action, "condition": only})
        last = days
    return rules, last
