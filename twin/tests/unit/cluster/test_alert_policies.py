"""Alert policies of the twin's cloud, as its Prometheus evaluates them."""

from dataclasses import replace

from twin.cluster.monitoring import alert_policies
from twin.cluster.monitoring.durations import Clock
from twin.host.paths import TwinPaths
from twin.world.store import Record, Store


def policy(project="acme", **changes):
    asked = {
        "alertRule": "QueueTooLong",
        "duration": "300s",
        "labels": {"severity": "warning"},
        "query": "avg(vllm:num_requests_waiting) > 20",
    }
    inputs = {
        "conditions": [{"conditionPrometheusQueryLanguage": asked, "displayName": "QueueTooLong"}],
        "documentation": {"content": "Requests wait.\n\nRunbook: docs/runbooks/queue-too-long.md"},
        "project": project,
        **changes,
    }
    return Record(
        type="gcp:monitoring/alertPolicy:AlertPolicy",
        id="1",
        name="alerts-queue-too-long",
        project=project,
        urn="urn",
        status="ready",
        acknowledged=True,
        inputs=inputs,
        outputs={},
        created=0.0,
    )


def groups(folder, *records):
    paths = TwinPaths(folder)
    for at, record in enumerate(records):
        Store(paths.cloud_db).add(replace(record, id=str(at)), [])
    return alert_policies.rule_file(paths, "acme", Clock(30, 1))["groups"]


def test_a_policy_is_a_rule_on_the_twin_s_clock(tmp_path):
    (group,) = groups(tmp_path, policy())
    assert group["interval"] == "2000ms"
    assert group["rules"] == [
        {
            "alert": "QueueTooLong",
            "annotations": {
                "runbook": "docs/runbooks/queue-too-long.md",
                "summary": "Requests wait.",
            },
            "expr": "avg(vllm:num_requests_waiting) > 20",
            "for": "10000ms",
            "labels": {"severity": "warning"},
        }
    ]


def test_the_ranges_of_an_alert_run_on_the_twins_clock_too():
    """Otherwise an alert about the last hours of the twin would go on for hours of its user."""
    query = 'rate(a{pod=~"x-[0-9]+"}[5m]) > 1 and rate(a[30m]) > 1 and increase(a[6h]) > $few'
    assert Clock(100, 1).windows(query) == (
        'rate(a{pod=~"x-[0-9]+"}[4000ms]) > 1 and rate(a[18000ms]) > 1'
        " and increase(a[216000ms]) > $few"
    )
    assert Clock(1, 1).windows("rate(a[5m])") == "rate(a[300000ms])"
    assert Clock(1, 1).windows("rate(a[1m])") == "rate(a[60000ms])", "never longer than it says"


def test_policies_that_are_off_or_of_another_project_or_kind_are_none(tmp_path):
    threshold = [{"displayName": "cpu", "conditionThreshold": {"comparison": "COMPARISON_GT"}}]
    found = groups(
        tmp_path,
        policy(enabled=False),
        policy(project="other"),
        policy(conditions=threshold),
    )
    assert found == []
