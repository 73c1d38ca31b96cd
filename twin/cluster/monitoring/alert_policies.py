"""Alert policies as rules of the twin's Prometheus, in place of Cloud Monitoring."""

from typing import Any

from twin.cluster.base.fields import part, parts
from twin.cluster.monitoring.durations import Clock, text
from twin.host.paths import TwinPaths
from twin.wire.kube import JsonObject
from twin.world.store import Record, list_resources

FILE = "alert-policies.yaml"
_POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"
_INTERVAL = "1m"


def rule_file(paths: TwinPaths, project: str, clock: Clock) -> dict[str, list[JsonObject]]:
    """Return the rule file of a project's enabled PromQL policies."""
    policies = [
        record.inputs for record in list_resources(paths, (_POLICY,)) if _is_of(record, project)
    ]
    rules = [
        rule
        for policy in policies
        if policy.get("enabled", True)
        for condition in parts(policy, "conditions")
        if (rule := _rule(policy, condition, clock)) is not None
    ]
    if not rules:
        return {"groups": []}
    group = {"name": FILE, "interval": clock.interval(_INTERVAL), "rules": rules}
    return {"groups": [group]}


def _is_of(record: Record, project: str) -> bool:
    return project in (record.project, record.inputs.get("project"))


def _rule(policy: JsonObject, condition: JsonObject, clock: Clock) -> dict[str, Any] | None:
    asked = part(condition, "conditionPrometheusQueryLanguage")
    if not asked.get("query"):
        return None
    summary = str(part(policy, "documentation").get("content", "")).split("\n")
    return {
        "alert": asked.get("alertRule") or condition["displayName"],
        "annotations": {"runbook": summary[-1].removeprefix("Runbook: "), "summary": summary[0]},
        "expr": clock.windows(str(asked["query"])),
        "for": clock.lasting(text(float(str(asked.get("duration", "0s")).removesuffix("s")))),
        "labels": dict(part(asked, "labels")),
    }
