import pytest

from twin.gke.api_extension import ApiGroup, other_version
from twin.gke.custom_metrics import keeps, sample_sum
from twin.gke.matching import container_port, selects

PAGE = """# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="llama"} 3.0
vllm:num_requests_waiting{model_name="sql"} 2.0
vllm:num_requests_waiting_by_reason{reason="capacity"} 9.0
vllm:kv_cache_usage_perc 0.25
"""


def test_a_pods_value_is_the_sum_of_the_samples_of_exactly_that_name():
    assert sample_sum(PAGE, "vllm:num_requests_waiting") == 5.0
    assert sample_sum(PAGE, "vllm:kv_cache_usage_perc") == 0.25


def test_a_metric_that_the_page_does_not_have_has_no_value():
    assert sample_sum(PAGE, "vllm:num_requests_running") is None


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


def test_relabelling_keeps_and_drops_by_name():
    keep = {"action": "keep", "sourceLabels": ["__name__"], "regex": "vllm:(a|b)"}
    drop = {"action": "drop", "sourceLabels": ["__name__"], "regex": "vllm:b"}
    endpoint = {"metricRelabeling": [keep, drop]}
    assert keeps(endpoint, "vllm:a")
    assert not keeps(endpoint, "vllm:b")
    assert not keeps(endpoint, "vllm:c")
    assert keeps({}, "vllm:c")


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
