"""Scrape targets, metrics of autoscalers, alerts, receivers and labels."""

from dataclasses import replace

import pytest

from infra.stack import Receiver
from scripts.accept.alerts import alerts
from scripts.accept.labels import labels
from scripts.accept.metrics import autoscalers, targets
from scripts.accept.row import Verdict
from tests.unit.accept.fake_platform import LABELS, pod
from tests.unit.bootstrap.fake_google import refused
from twin.cluster.monitoring.promql import QueryError
from twin.wire.kube import KubeError


def only(rows):
    (row,) = rows
    return row


def test_every_ready_pod_of_a_pod_monitoring_is_a_target_that_is_up(platform, fake):
    fake.cluster.pods.append(pod("llama-1", "tpu", ready=None))  # on its way: not to be scraped yet
    row = only(targets(platform))
    assert (row.verdict, row.measured) == (Verdict.MET, "1 pods of 1 PodMonitorings are up")


@pytest.mark.parametrize(
    ("up", "says"),
    [
        ({}, "llama-0 of llama-3-1-8b is not a target"),
        ({"llama-0": 0.0}, "llama-0 of llama-3-1-8b is down"),
    ],
)
def test_a_pod_that_is_no_target_or_is_down_is_not_met(platform, fake, up, says):
    fake.cluster.up = up
    row = only(targets(platform))
    assert row.verdict is Verdict.NOT_MET
    assert row.measured.endswith(f": {says}")


def test_a_namespace_that_nobody_scrapes_is_not_met(platform, fake):
    fake.cluster.monitorings = []
    assert only(targets(platform)).verdict is Verdict.NOT_MET


def test_a_prometheus_that_does_not_answer_is_not_seen(platform):
    def silent(_: str):
        raise QueryError("Prometheus at 127.0.0.1:1: refused")

    cluster = replace(platform.clusters["us-central1"], query=silent)
    row = only(targets(replace(platform, clusters={"us-central1": cluster})))
    assert (row.is_unseen, row.measured) == (True, "Prometheus at 127.0.0.1:1: refused")


def test_metrics_of_pods_have_no_value_while_there_are_no_pods(platform):
    found = {row.name: row for row in autoscalers(platform)}
    assert {row.verdict for row in found.values()} == {Verdict.MET}
    assert found["llama-3-1-8b-tpu in us-central1"].measured == "1 of 1 metrics"
    assert found["llama-3-1-8b-gpu in us-central1"].measured == (
        "1 of 2 metrics; it has no replicas, so the others have none"
    )


def test_a_metric_without_a_value_is_unknown_with_the_reason(platform, fake):
    status = fake.cluster.scalers[0]["status"]
    status["currentMetrics"] = [{"type": ""}]
    status["conditions"] = [
        {
            "type": "ScalingActive",
            "status": "False",
            "reason": "FailedGetPodsMetric",
            "message": "no metrics returned",
        }
    ]
    row = next(iter(autoscalers(platform)))
    assert (row.verdict, row.measured) == (
        Verdict.NOT_MET,
        "unknown: vllm:num_requests_waiting (FailedGetPodsMetric: no metrics returned)",
    )


def test_an_external_metric_must_have_a_value_also_without_replicas(platform, fake):
    fake.cluster.scalers[1]["status"]["currentMetrics"] = [{"type": ""}, {"type": ""}]
    rows = list(autoscalers(platform))
    assert (rows[1].verdict, rows[1].measured) == (Verdict.NOT_MET, "unknown: unplaced")


def test_a_missing_autoscaler_is_not_met(platform, fake):
    fake.cluster.scalers.pop(0)
    assert next(iter(autoscalers(platform))).measured == "there is none"


def test_a_cluster_that_hides_its_autoscalers_is_not_seen(platform, fake):
    fake.cluster.error = KubeError(0, "Unreachable", "timed out", {})
    assert all(row.is_unseen for row in autoscalers(platform))


NOTIFY = {
    "oncall": Receiver.model_validate_json('{"kind": "pagerduty", "severity": "critical"}'),
    "team": Receiver.model_validate_json('{"kind": "email", "address": "ops@example.com"}'),
}


@pytest.fixture
def watched(fake, local):
    """Give a platform with two receivers."""
    monitoring = local.monitoring.model_copy(update={"notify": NOTIFY})
    return fake.deployed(local.model_copy(update={"monitoring": monitoring}))


def listed(fake, kind: str) -> list[dict]:
    project = "acme-inference-local"
    return fake.google.resources[f"monitoring.googleapis.com/v3/projects/{project}/{kind}"][kind]


def test_policies_and_receivers_are_met_and_delivery_is_not_checked(watched):
    rows = {f"{row.subject} {row.name}": row for row in alerts(watched)}
    verdicts = {name: row.verdict.value for name, row in rows.items()}
    assert verdicts == {
        "alerts local": "met",
        "receiver oncall": "met",
        "receiver team": "met",
        "alert delivery local": "not checked",
    }
    assert rows["receiver oncall"].predicted.endswith("(critical ones)")


def test_a_policy_that_is_missing_or_off_is_not_met(platform, fake):
    policies = listed(fake, "alertPolicies")
    gone, off = policies.pop(0), policies[0]
    off["enabled"] = False
    row = next(iter(alerts(platform)))
    assert row.verdict is Verdict.NOT_MET
    names = [each["displayName"].removeprefix("acme local: ") for each in (gone, off)]
    assert row.measured == f"{names[0]} has no policy; {names[1]} is disabled"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"enabled": False}, "the channel is disabled"),
        ({"type": "sms"}, "the channel is sms; must be email"),
        ({"verificationStatus": "UNVERIFIED"}, "the channel is UNVERIFIED: nothing is sent to it"),
        ({"displayName": "another"}, "there is no notification channel"),
    ],
)
def test_a_channel_that_reaches_nobody_is_not_met(watched, fake, change, says):
    (team,) = [each for each in listed(fake, "notificationChannels") if each["type"] == "email"]
    team.update(change)
    (row,) = [row for row in alerts(watched) if row.name == "team"]
    assert (row.verdict, row.measured) == (Verdict.NOT_MET, says)


def test_a_receiver_that_a_policy_does_not_name_is_not_met(watched, fake):
    policies = listed(fake, "alertPolicies")
    policies[0]["notificationChannels"] = []
    (row,) = [row for row in alerts(watched) if row.name == "team"]
    name = policies[0]["displayName"].removeprefix("acme local: ")
    assert row.measured == f"is not notified of {name}"


def test_policies_that_google_hides_are_not_seen(platform, fake):
    fake.google.refusals["monitoring.googleapis.com"] = refused(403, "denied")
    row = only(alerts(platform))
    assert (row.is_unseen, row.measured) == (
        True,
        "no permission at monitoring.googleapis.com: denied",
    )


def test_clusters_and_buckets_have_the_labels_of_the_stack(platform):
    rows = list(labels(platform))
    assert [row.name for row in rows] == [
        "cluster acme-local-us-central1",
        "bucket acme-local-models-us-central1",
        "bucket acme-local-caches-us-central1",
    ]
    assert {(row.verdict, row.measured) for row in rows} == {
        (Verdict.MET, "env=local, managed-by=gke-inference")
    }


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"resourceLabels": {"env": "dev"}}, "env=dev"),
        ({"resourceLabels": LABELS}, "env=local, managed-by=gke-inference; cost allocation is off"),
        ({}, "no such label"),
        (None, "there is none"),
    ],
)
def test_a_cluster_whose_bill_cannot_be_split_is_not_met(platform, fake, found, says):
    (path,) = [each for each in fake.google.resources if each.startswith("container")]
    if found is None:
        del fake.google.resources[path]
    else:
        fake.google.resources[path] = found
    row = next(iter(labels(platform)))
    assert (row.verdict, row.measured) == (Verdict.NOT_MET, says)


def test_labels_that_google_hides_are_not_seen(platform, fake):
    fake.google.refusals["storage.googleapis.com"] = refused(403, "denied")
    rows = list(labels(platform))
    assert [row.is_unseen for row in rows] == [False, True, True]
