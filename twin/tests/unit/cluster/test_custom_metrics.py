"""Prometheus queries of the metrics APIs."""

import pytest

from twin.cluster.base.api_extension import ApiGroup, other_version
from twin.cluster.base.matching import container_port, selects
from twin.cluster.metrics_api.query import (
    BadRequest,
    Windows,
    expression,
    is_of_pubsub,
    kind_of,
    labels_of,
    milli,
    names_matcher,
    parse_selector,
    selection,
)

WINDOWS = Windows(request=4.0, alignment=60.0)
EXTERNAL = ("metric.labels", "resource.labels")


@pytest.mark.parametrize(
    ("selector", "labels", "meant"),
    [
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": "x"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": "x"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]}, {"a": "x"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}, {}, True),
        ({}, {"anything": "goes"}, True),
    ],
)
def test_a_pod_monitoring_means_the_pods_its_selector_does(selector, labels, meant):
    assert selects(selector, labels) is meant


def test_a_gauge_is_its_newest_sample_in_the_window():
    asked = expression("prometheus.googleapis.com|vllm:q|gauge", ('pod="a"',), WINDOWS)
    assert asked == 'last_over_time({__name__="vllm:q", pod="a"}[4000ms])'


def test_a_counter_is_its_rate():
    asked = expression("prometheus.googleapis.com|t_total|counter", (), WINDOWS)
    assert asked == 'rate({__name__="t_total"}[60000ms])'


def test_the_backlog_of_a_subscription_is_a_series_of_pubsubs_own():
    metric = "pubsub.googleapis.com|subscription|num_undelivered_messages"
    chosen = selection("resource.labels.subscription_id=docs", EXTERNAL)
    asked = expression(metric, chosen.matchers, WINDOWS)
    name = "pubsub_googleapis_com:subscription_num_undelivered_messages"
    assert asked == f'last_over_time({{__name__="{name}", subscription_id="docs"}}[4000ms])'
    assert is_of_pubsub(metric)
    assert not is_of_pubsub("prometheus.googleapis.com|vllm:q|gauge")
    assert labels_of({"__name__": name, "subscription_id": "docs"}) == {
        "resource.labels.subscription_id": "docs",
        "resource.type": "pubsub_subscription",
    }


def test_a_histogram_is_refused():
    with pytest.raises(BadRequest, match="distributions are not supported"):
        expression("prometheus.googleapis.com|t|histogram", (), WINDOWS)


@pytest.mark.parametrize("metric", ["vllm:q", "pubsub.googleapis.com|x|y", "a|b|c|d"])
def test_a_metric_of_another_service_has_no_series(metric):
    assert expression(metric, (), WINDOWS) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("vllm:q", "gauge"),
        ("tokens_total", "counter"),
        ("family_total", "counter"),
        ("plain", "unknown"),
        ("seconds", "histogram"),
        ("seconds_count", "part"),
        ("other_count", None),
    ],
)
def test_a_metric_has_the_kind_with_which_managed_prometheus_stores_it(name, kind):
    types = {
        "vllm:q": "gauge",
        "tokens_total": "counter",
        "family": "counter",
        "plain": "untyped",
        "seconds": "histogram",
    }
    assert kind_of(name, types.get) == kind


def test_a_selector_filters_by_the_labels_of_metric_and_resource():
    asked = selection("metric.labels.model=m,resource.labels.cluster in (a,b)", EXTERNAL)
    assert asked.matchers == ('model="m"', 'cluster=~"a|b"')
    assert selection("metric.labels.a!=x", EXTERNAL).matchers == ('a!="x"',)
    assert selection("metric.labels.a notin (x.y,z)", EXTERNAL).matchers == ('a!~"x\\\\.y|z"',)
    assert selection("metric.labels.a", EXTERNAL).matchers == ('a!=""',)
    assert selection("resource.type=prometheus_target", EXTERNAL).matchers == ()


def test_a_label_of_the_resource_is_none_of_the_metrics_and_the_other_way_round():
    assert selection("metric.labels.namespace=a", EXTERNAL).matchers == ('__name__=""',)
    assert selection("resource.labels.model=a", EXTERNAL).matchers == ('__name__=""',)


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ("model=m", "not allowed"),
        ("!metric.labels.a", "DoesNotExist is not allowed"),
        ("reducer=REDUCE_ALL", "not supported"),
        ("a ~ b", "not understood"),
    ],
)
def test_a_selector_that_cloud_monitoring_cannot_filter_by_is_refused(selector, why):
    with pytest.raises(BadRequest, match=why):
        selection(selector, EXTERNAL)


def test_a_pods_own_metric_is_filtered_by_its_labels_only():
    with pytest.raises(BadRequest, match="not allowed"):
        selection("resource.labels.cluster=a", ("metric.labels",))


def test_a_reducer_makes_one_series_of_all():
    assert selection("reducer=REDUCE_MEAN", EXTERNAL).reducer.format("x") == "avg(x)"
    assert selection("", EXTERNAL).reducer.format("x") == "x"


def test_selectors_are_read_as_kubernetes_writes_them():
    assert parse_selector("a=b,c!=d,e in (f,g),h notin (i),j,!k") == [
        ("a", "in", ("b",)),
        ("c", "notin", ("d",)),
        ("e", "in", ("f", "g")),
        ("h", "notin", ("i",)),
        ("j", "exists", ()),
        ("k", "absent", ()),
    ]


def test_values_and_labels_are_written_as_the_adapter_does():
    assert milli(2.0) == "2"
    assert milli(0.0019) == "1m"
    assert labels_of({"__name__": "x", "model": "m", "cluster": "c"}) == {
        "metric.labels.model": "m",
        "resource.labels.cluster": "c",
        "resource.type": "prometheus_target",
    }
    assert names_matcher("pod", ["b", "a"]) == 'pod=~"a|b"'


def test_a_port_is_found_by_name_or_number():
    pod = {"spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8000}]}]}}
    assert container_port(pod, "http") == 8000
    assert container_port(pod, 9090) == 9090
    assert container_port(pod, "grpc") is None


def test_discovery_names_the_group_its_version_and_its_resource():
    group = ApiGroup("custom.metrics.k8s.io", "v1beta2", "pods/*", "MetricValueList")
    found = group.discovery()
    assert found["/apis"]["groups"][0]["name"] == "custom.metrics.k8s.io"
    resources = found["/apis/custom.metrics.k8s.io/v1beta2"]["resources"]
    assert [entry["name"] for entry in resources] == ["pods/*"]


def test_a_version_that_an_adapter_registers_beside_ours_is_there_and_empty():
    found = ApiGroup("custom.metrics.k8s.io", "v1beta2", "pods/*", "MetricValueList").discovery()
    listed = other_version(found, "/apis/custom.metrics.k8s.io/v1beta1")
    assert listed is not None
    assert listed["groupVersion"] == "custom.metrics.k8s.io/v1beta1"
    assert listed["resources"] == []
    assert other_version(found, "/apis/other.example/v1") is None
