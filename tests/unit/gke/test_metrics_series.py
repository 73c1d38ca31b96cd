"""Recorded series of Rules objects."""

import pytest

from twin.gke.metrics_series import evaluate, parse_expression, parse_selector, selected, series_of

EXPRESSION = 'sum(kube_pod_status_phase{phase="Pending",namespace="llm",pod=~"chat-tpu-.*"})'


def rules(expression=EXPRESSION, **rule):
    entry = {
        "record": "gke_inference:unplaced_replicas",
        "expr": expression,
        "labels": {"model": "chat"},
        **rule,
    }
    return {
        "metadata": {"namespace": "llm", "name": "r"},
        "spec": {"groups": [{"name": "g", "interval": "15s", "rules": [entry]}]},
    }


def pod(name, phase, namespace="llm"):
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "status": {"phase": phase},
    }


def test_pending_pods_of_the_deployment_are_summed():
    [series] = series_of(rules())
    pods = [
        pod("chat-tpu-a", "Pending"),
        pod("chat-tpu-b", "Pending"),
        pod("chat-tpu-c", "Running"),
        pod("chat-gpu-a", "Pending"),
        pod("chat-tpu-a", "Pending", "other"),
    ]
    assert evaluate(series, pods) == 2


def test_running_pods_make_a_zero_and_no_pods_make_no_data():
    [series] = series_of(rules())
    assert evaluate(series, [pod("chat-tpu-a", "Running")]) == 0
    assert evaluate(series, []) is None


def test_a_series_has_its_own_labels_and_its_namespace():
    [series] = series_of(rules())
    assert series.labels == {"model": "chat", "namespace": "llm"}


def test_a_rules_object_does_not_see_other_namespaces():
    expression = 'sum(kube_pod_status_phase{phase="Pending",namespace="other"})'
    [series] = series_of(rules(expression))
    assert evaluate(series, [pod("a", "Pending", "other"), pod("b", "Pending")]) is None


@pytest.mark.parametrize(
    "expression",
    [
        'avg(kube_pod_status_phase{phase="Pending"})',
        "sum(vllm:num_requests_waiting)",
        'sum(kube_pod_status_phase{phase="Pending"}) > 0',
        "sum(kube_pod_status_phase{phase=Pending})",
        'sum(rate(kube_pod_status_phase{phase="Pending"}[5m]))',
        'sum(kube_pod_status_phase{phase="Pending" namespace="x"})',
    ],
)
def test_an_expression_of_another_shape_yields_no_series(expression):
    assert parse_expression(expression) is None
    assert series_of(rules(expression)) == []


def test_alerts_are_not_series():
    item = rules()
    del item["spec"]["groups"][0]["rules"][0]["record"]
    assert series_of(item) == []


@pytest.mark.parametrize(
    ("selector", "means"),
    [
        ("", True),
        ("metric.labels.model=chat", True),
        ("metric.labels.model=other", False),
        ("metric.labels.model!=other", True),
        ("metric.labels.model in (chat,other)", True),
        ("metric.labels.model notin (chat)", False),
        ("metric.labels.missing", False),
        ("!metric.labels.missing", True),
        ("resource.labels.cluster=c,metric.labels.model=chat", True),
    ],
)
def test_a_selector_chooses_series_by_their_labels(selector, means):
    assert selected({"model": "chat"}, selector) is means


def test_a_selector_of_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="not understood"):
        parse_selector("a > 1")
