import re
from pathlib import Path
from typing import Any

import pulumi
import pytest

from gke_inference.catalogue.engines import engine
from gke_inference.observability.alert_source import alerts, rule_group, sources
from gke_inference.observability.alerts import Alerts
from gke_inference.observability.promql import Dialect, ModelFacts, Scope
from gke_inference.observability.settings import Severity
from gke_inference.operators.queue_monitoring import METRICS as KUEUE_METRICS
from tests.contract.components_gcp.observed import (
    BATCH_METRICS,
    CALLOUT_METRICS,
    RELAY_METRICS,
    ROUTER_METRICS,
    SCOPE,
    args,
)
from tests.contract.components_gcp.test_dashboards import GKE_METRICS, PICKER_METRICS, metrics_of

POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"
STREAMS = Path(__file__).parents[3] / "workloads" / "stream"
STREAM_METRICS = {
    name + suffix
    for name in re.findall(r'"(gke_inference_stream_\w+)"', (STREAMS / "metrics.py").read_text())
    for suffix in ("", "_total")
}
"""The same for the workers of streams."""
CHANNEL = "gcp:monitoring/notificationChannel:NotificationChannel"
UPTIME = "gcp:monitoring/uptimeCheckConfig:UptimeCheckConfig"


def build(recorder, **changes):
    recorder.run(lambda: Alerts("alerts", args(**changes)).policies)
    return recorder


def policies(recorder, **changes):
    made = build(recorder, **changes).all(POLICY)
    return {seen.inputs["conditions"][0]["displayName"]: seen.inputs for seen in made}


def named(name, scope=SCOPE):
    return next(alert for alert in alerts(scope, Dialect.MANAGED) if alert.name == name)


def test_every_alert_has_a_severity_a_duration_and_a_summary():
    for source in sources():
        assert source["severity"] in list(Severity), source["name"]
        assert source["summary"].endswith("."), source["name"]
        assert source["lasting"][-1] in "hm", source["name"]
    names = [source["name"] for source in sources()]
    assert sorted(set(names)) == sorted(names)


def test_every_alert_looks_at_metrics_that_somebody_exports():
    scraped = {name.removesuffix("_(bucket|count|sum)") for name in engine("vllm").metrics.stored()}
    known = scraped | PICKER_METRICS | GKE_METRICS | CALLOUT_METRICS | RELAY_METRICS
    known |= ROUTER_METRICS | BATCH_METRICS | STREAM_METRICS | set(KUEUE_METRICS)
    for alert in alerts(SCOPE, Dialect.MANAGED):
        used = metrics_of(alert.expr)
        assert used, alert.name
        assert {name.removesuffix("_bucket") for name in used} <= known, alert.name


def test_a_model_is_missed_in_each_of_its_clusters():
    scope = Scope((ModelFacts("llama", ("llama-tpu",), ("a", "b")),), "models")
    assert named("NoReadyReplica", scope).expr == (
        'absent(vllm:num_requests_running{namespace="models",job="llama",cluster="a"}) or '
        'absent(vllm:num_requests_running{namespace="models",job="llama",cluster="b"})'
    )


def test_a_model_is_missed_when_one_of_its_roles_is_gone_but_its_picker_once():
    facts = ModelFacts("llama", ("llama-decode", "llama-prefill"), roles=("decode", "prefill"))
    scope = Scope((facts,), "models")
    engines = 'vllm:num_requests_running{namespace="models",job="llama"'
    assert named("NoReadyReplica", scope).expr == (
        f'absent({engines},role="decode"}}) or absent({engines},role="prefill"}})'
    )
    assert named("EndpointPickerDown", scope).expr == (
        'absent(inference_pool_ready_pods{namespace="models",job="llama-picker"})'
    )


def test_a_model_is_missed_by_the_metric_of_its_own_engine():
    facts = ModelFacts("m", ("m-gpu",), engine="triton")
    assert named("NoReadyReplica", Scope((facts,), "models")).expr == (
        'absent(nv_trt_llm_request_metrics{namespace="models",job="m",request_type="active"})'
    )


def test_alerts_about_what_the_stack_does_not_say_are_left_out():
    bare = Scope((ModelFacts("llama", ("llama-tpu",)),), "models")
    missing = {a.name for a in alerts(SCOPE, Dialect.MANAGED)} - {
        a.name for a in alerts(bare, Dialect.MANAGED)
    }
    assert missing == {
        "BackendRequestsFailing",
        "BatchCompletionAtRisk",
        "BatchRequestsFailing",
        "BodyRouterDown",
        "BodyRouterOverloaded",
        "CertificateExpiringSoon",
        "ClientGateDown",
        "ClientGateOverloaded",
        "ClientKeysStale",
        "CostLimitExceeded",
        "FallbackHardwareInUse",
        "FirstReplicaTooLate",
        "GatewayUnreachable",
        "GuardFailingClosed",
        "GuardFailingOpen",
        "JobQueueStalled",
        "KafkaStreamDeadLetters",
        "KafkaStreamLagging",
        "PersonalizedImagesDeadLetters",
        "PersonalizedImagesDelayed",
        "PickerMemoryHigh",
        "PoolFallbackBudgetExhausted",
        "PoolFallbackBudgetNearlyExhausted",
        "PoolFallbackInUse",
        "RelayOverloaded",
        "StreamDeadLetters",
        "StreamLagging",
        "StreamsStalled",
        "TPOTFastBurn",
        "TPOTSlowBurn",
        "TTFTFastBurn",
        "TTFTSlowBurn",
        "TeamBudgetExhausted",
        "TeamBudgetNearlyExhausted",
        "UserDataDeletionDelayed",
    }


def test_a_policy_of_a_renamed_alert_keeps_its_place_in_the_state(recorder):
    build(recorder)
    renamed = recorder.requests[POLICY, "alerts-endpoint-picker-down"]
    assert [alias.spec.name for alias in renamed.aliases] == ["alerts-picker-away"]
    assert not recorder.requests[POLICY, "alerts-no-ready-replica"].aliases


def test_a_set_that_waits_is_reported_before_the_time_of_its_training_is_over(recorder):
    made = policies(recorder, personal_images="acme-personal", personal_train_seconds=3600)
    (condition,) = made["PersonalizedImagesDelayed"]["conditions"]
    query = condition["conditionPrometheusQueryLanguage"]["query"]
    assert query.endswith(
        '{monitored_resource="pubsub_subscription",subscription_id="acme-personal"}) > 1800'
    )
    (condition,) = made["PersonalizedImagesDeadLetters"]["conditions"]
    query = condition["conditionPrometheusQueryLanguage"]["query"]
    assert 'subscription_id=~"acme-personal(-erasures)?-dead-letters"' in query


def test_a_promise_that_the_engine_has_no_metric_for_makes_no_alert_that_never_fires():
    facts = ModelFacts("m", ("m-gpu",), engine="tgi", tpot_p95_ms=40, ttft_p95_ms=500)
    names = {alert.name for alert in alerts(Scope((facts,), "models"), Dialect.MANAGED)}
    assert {"TPOTSlowBurn", "TPOTFastBurn"} <= names
    assert not {"TTFTSlowBurn", "TTFTFastBurn"} & names


def test_a_prometheus_of_ones_own_gets_no_alert_on_series_of_google():
    rules = rule_group(alerts(SCOPE, Dialect.PROMETHEUS))["rules"]
    names = {rule["alert"] for rule in rules}
    everything = {alert.name for alert in alerts(SCOPE, Dialect.MANAGED)}
    assert everything - names == {
        "CertificateExpiringSoon",
        "GatewayUnreachable",
        "ReplicaCrashLooping",
    }
    queue = next(rule for rule in rules if rule["alert"] == "QueueTooLong")
    assert queue == {
        "alert": "QueueTooLong",
        "annotations": {
            "runbook": "docs/runbooks/queue-too-long.md",
            "summary": "Requests wait on every replica of a model; it needs more replicas.",
        },
        "expr": "avg by (job, cluster) "
        '(vllm:num_requests_waiting{namespace="models",job=~"embedder|llama|rare"}) > 20',
        "for": "5m",
        "labels": {"severity": "warning"},
    }


def test_a_policy_asks_in_promql_and_needs_no_metric_to_be_there_yet(recorder):
    policy = policies(recorder, queue_limit=7)["QueueTooLong"]
    (condition,) = policy["conditions"]
    asked = condition["conditionPrometheusQueryLanguage"]
    assert asked["query"].endswith(" > 7")
    assert asked["disableMetricValidation"] is True
    assert (asked["duration"], asked["evaluationInterval"]) == ("300s", "60s")
    assert (policy["severity"], policy["combiner"]) == ("WARNING", "OR")


def test_an_alert_leads_to_its_runbook(recorder):
    url = "https://git.example.com/platform/docs/runbooks/"
    told = policies(recorder, runbooks_url=url)["NoReadyReplica"]["documentation"]
    assert told["content"].endswith("Runbook: docs/runbooks/no-ready-replica.md")
    assert told["links"] == [
        {
            "displayName": "Runbook",
            "url": "https://git.example.com/platform/docs/runbooks/no-ready-replica.md",
        }
    ]


def test_without_receivers_nobody_is_told(recorder):
    made = policies(recorder)
    assert {tuple(policy.get("notificationChannels") or ()) for policy in made.values()} == {()}
    assert recorder.all(CHANNEL) == []


def test_a_receiver_is_told_what_is_bad_enough_for_it(recorder):
    made = policies(
        recorder,
        receivers=[
            {"kind": "email", "name": "team", "address": "team@example.com"},
            {"kind": "pagerduty", "name": "oncall", "secret": "key", "severity": "critical"},
        ],
    )
    assert made["QueueTooLong"]["notificationChannels"] == ["alerts-team-id"]
    assert made["NoReadyReplica"]["notificationChannels"] == ["alerts-team-id", "alerts-oncall-id"]


def without_secrets(labels: dict[str, Any]) -> tuple[dict[str, str], bool]:
    """Return plain labels, and whether they were a secret."""
    return labels.get("value", labels), "value" in labels


@pytest.mark.parametrize(
    ("receiver", "kind", "labels", "sensitive"),
    [
        (
            {"kind": "email", "address": "a@b.example"},
            "email",
            {"email_address": "a@b.example"},
            None,
        ),
        (
            {"kind": "slack", "channel": "#ml", "secret": "token"},
            "slack",
            {"channel_name": "#ml"},
            {"authToken": "token"},
        ),
        ({"kind": "pagerduty", "secret": "key"}, "pagerduty", {}, {"serviceKey": "key"}),
        (
            {"kind": "webhook", "secret": "https://hooks.example.com/1"},
            "webhook_tokenauth",
            {"url": "https://hooks.example.com/1"},
            None,
        ),
    ],
)
def test_a_receiver_becomes_a_channel_of_its_kind(recorder, receiver, kind, labels, sensitive):
    (channel,) = build(recorder, receivers=[{**receiver, "name": "x"}]).all(CHANNEL)
    assert channel.inputs["type"] == kind
    assert without_secrets(channel.inputs["labels"]) == (labels, receiver["kind"] == "webhook")
    found = channel.inputs.get("sensitiveLabels")
    assert (None if found is None else found["value"]) == sensitive  # wrapped, as it is a secret


def test_an_endpoint_on_the_internet_is_asked_from_outside(recorder):
    build(recorder, hostname="models.example.com")
    check = recorder.one(UPTIME).inputs
    assert check["monitoredResource"]["labels"]["host"] == "models.example.com"
    assert check["httpCheck"] == {
        "path": "/healthz",
        "port": 443,
        "useSsl": True,
        "validateSsl": True,
    }


def test_an_internal_endpoint_is_not_asked_from_outside(recorder):
    build(recorder, exposure="internal", hostname="models.example.com")
    assert recorder.all(UPTIME) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"receivers": [{"kind": "fax", "name": "x"}]}, "kind.*email.*got 'fax'"),
        (
            {"receivers": [{"kind": "email", "name": "x"}]},
            r"receivers\[0\].address.*required when kind is email",
        ),
        (
            {"receivers": [{"kind": "slack", "name": "x", "channel": "#a"}]},
            r"receivers\[0\].secret.*required when kind is slack",
        ),
        (
            {"receivers": [{"kind": "webhook", "name": "x"}]},
            r"receivers\[0\].secret.*required when kind is webhook",
        ),
        (
            {"receivers": [{"kind": "pagerduty", "name": "x", "secret": "k", "severity": "low"}]},
            "severity.*warning, critical, got 'low'",
        ),
        (
            {"receivers": [{"kind": "email", "name": "x", "address": "a@b.example"}] * 2},
            "receivers.*must have unique names, got x twice",
        ),
        ({"cost_limit_usd_per_hour": 0}, "costLimitUsdPerHour.*must be more than 0, got 0"),
        ({"models": []}, "models.*must have at least 1 entry, got 0"),
    ],
)
def test_alerts_that_could_not_work_are_refused(recorder, change, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        build(recorder, **change)
