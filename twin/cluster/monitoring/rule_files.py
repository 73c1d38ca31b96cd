"""Prometheus rule files from Rules, ClusterRules and GlobalRules.

A `Rules` object sees only the series of its own namespace, a `ClusterRules` object only those of
its cluster. The program `rulescope` adds the labels to every selector with the Prometheus parser,
and rejects the same rules as the operator of Managed Prometheus (prometheus-engine,
rules_config.go).
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from twin.cluster.base.fields import parts
from twin.cluster.monitoring.durations import Clock
from twin.cluster.monitoring.scrape import ConfigError
from twin.wire.kube import JsonObject

_SECONDS = 30
_COPIED = ("record", "alert", "annotations")


def scope_of(rules: JsonObject, cluster: dict[str, str]) -> dict[str, str]:
    """Return the labels of all series that a rules object reads and writes."""
    if rules["kind"] == "GlobalRules":
        return {}
    namespace: str | None = rules["metadata"].get("namespace")
    return cluster if namespace is None else {**cluster, "namespace": namespace}


def rule_groups(
    rules: JsonObject, scoped: list[JsonObject], clock: Clock
) -> dict[str, list[JsonObject]]:
    """Return the content of a rule file.

    Args:
        rules: rules object.
        scoped: expression and labels of each of its rules, in order.
        clock: clock of the twin, for evaluations and `for` but not for ranges in expressions.

    Raises:
        ConfigError: a duration is not valid.
    """
    rest = iter(scoped)
    groups: list[JsonObject] = []
    try:
        for group in parts(rules["spec"], "groups"):
            made: JsonObject = {"name": group["name"], "rules": []}
            made["interval"] = clock.interval(group.get("interval") or "1m")
            for rule in parts(group, "rules"):
                out: dict[str, Any] = {key: rule[key] for key in _COPIED if rule.get(key)}
                if rule.get("for"):
                    out["for"] = clock.lasting(rule["for"])
                made["rules"].append(out | next(rest))
            groups.append(made)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return {"groups": groups}


def scoped_rules(
    objects: list[JsonObject], cluster: dict[str, str], program: Path
) -> list[list[JsonObject] | ConfigError]:
    """Return expression and labels of every rule of each object, or why the object is rejected.

    Raises:
        OSError: the program cannot be run.
        subprocess.SubprocessError: the program failed.
    """
    if not objects:
        return []
    documents = [
        {"scope": scope_of(item, cluster), "rules": [_bare(rule) for rule in _rules(item)]}
        for item in objects
    ]
    answer = subprocess.run(
        [program],
        input=json.dumps(documents),
        capture_output=True,
        text=True,
        check=True,
        timeout=_SECONDS,
    )
    found: list[JsonObject] = json.loads(answer.stdout)
    return [
        ConfigError(one["error"]) if one.get("error") else list(one.get("rules") or ())
        for one in found
    ]


def _rules(item: JsonObject) -> list[JsonObject]:
    return [rule for group in parts(item["spec"], "groups") for rule in parts(group, "rules")]


def _bare(rule: JsonObject) -> JsonObject:
    return {"expr": str(rule["expr"]), "labels": dict(rule.get("labels") or {})}
