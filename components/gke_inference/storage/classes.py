"""Lifecycle rules that move objects to colder storage classes with age."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pulumi
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


def class_rules(
    args: Mapping[str, Any], condition: Mapping[str, Any] | None = None
) -> "tuple[list[storage.BucketLifecycleRuleArgsDict], int]":
    """Return the rules for `nearline_after_days` to `archive_after_days`, and the last age.

    Args:
        args: Checked inputs of a component, with these keys.
        condition: Condition of each rule besides the age.

    Raises:
        pulumi.InputPropertyError: An age is not above that of a warmer class.
    """
    steps: list[tuple[str, int]] = []
    last = 0
    for cold in MINIMUM_DAYS:
        field = f"{cold}_after_days"
        days: int | None = args.get(field)
        if days is None:
            continue
        if days <= last:
            raise pulumi.InputPropertyError(f"{cold}AfterDays", f"must be above {last}, got {days}")
        steps.append((cold, days))
        last = days
    return step_rules(steps, condition), last
