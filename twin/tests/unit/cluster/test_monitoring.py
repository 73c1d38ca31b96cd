"""Translation of monitoring objects into Prometheus' configuration."""

import pytest

from gke_inference.catalogue.load_balancing import balancers
from twin.cluster.monitoring import controller, durations, scrape, system_jobs, targets

CLUSTER = {"cluster": "c", "location": "us-east5", "project_id": "acme"}
CLOCK = durations.Clock(speed=100, shortest=1.0)


def pod(name="chat-7d9f-abcde", namespace="llm", ports=((8000, "http"),), **labels):
    """Return a running pod of a Deployment `chat`."""
    owner = {"controller": True, "kind": "ReplicaSet", "name": "chat-7d9f"}
    listed = [{"containerPort": number, "name": word} for number, word in ports]
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "labels": {"pod-template-hash": "7d9f", "app": "chat", **labels},
        "ownerReferences": [owner],
    }
    spec = {"nodeName": "node-1", "containers": [{"name": "server", "ports": listed}]}
    status_ = {"phase": "Running", "podIP": "127.70.0.4"}
    return {"metadata": metadata, "spec": spec, "status": status_}


def monitoring(kind="PodMonitoring", endpoints=({"port": "http", "interval": "15s"},), **spec):
    """Return a monitoring object of the pods `app: chat`."""
    metadata = {"name": "chat"} | ({"namespace": "llm"} if kind == "PodMonitoring" else {})
    selector = {"matchLabels": {"app": "chat"}}
    spec = {"selector": selector, "endpoints": list(endpoints), **spec}
    return {"kind": kind, "metadata": metadata, "spec": spec}


def there(one, port):
    """Resolve a port to the pod's own address."""
    return one["status"]["podIP"], port


def found(wanted, *pods, resolve=there):
    """Return the targets of a monitoring object's first endpoint."""
    meant = targets.selected_pods(wanted, pods)
    return targets.targets_of(wanted, wanted["spec"]["endpoints"][0], meant, resolve, CLUSTER)


@pytest.mark.parametrize(
    ("written", "seconds"), [("15s", 15), ("1m30s", 90), ("250ms", 0.25), ("1d", 86_400), ("0", 0)]
)
def test_durations_are_read_as_prometheus_writes_them(written, seconds):
    assert durations.seconds(written) == seconds


@pytest.mark.parametrize("written", ["", "15", "1s1x", "-1s"])
def test_what_is_no_duration_is_refused(written):
    with pytest.raises(ValueError, match="not a valid duration"):
        durations.seconds(written)


def test_intervals_run_on_the_twins_clock_but_not_faster_than_the_shortest():
    assert CLOCK.interval("5m") == "3000ms"
    assert CLOCK.interval("15s") == "1000ms"
    assert CLOCK.interval("500ms") == "500ms"
    assert CLOCK.lasting("15m") == "9000ms"


def test_a_target_has_the_labels_that_are_asked_for():
    labels = {"metadata": ["pod", "container", "node", "top_level_controller_name"]}
    (target,) = found(monitoring(targetLabels=labels), pod())
    assert target["targets"] == ["127.70.0.4:8000"]
    assert target["labels"] == {
        **CLUSTER,
        "container": "server",
        "instance": "chat-7d9f-abcde:http",
        "job": "chat",
        "namespace": "llm",
        "node": "node-1",
        "pod": "chat-7d9f-abcde",
        "top_level_controller_name": "chat",
    }


def test_a_port_number_needs_no_declaration_and_names_no_container():
    labels = {"metadata": ["container", "pod"]}
    wanted = monitoring(endpoints=[{"port": 9090, "interval": "15s"}], targetLabels=labels)
    (target,) = found(wanted, pod())
    assert target["targets"] == ["127.70.0.4:9090"]
    assert target["labels"]["instance"] == "chat-7d9f-abcde:9090"
    assert "container" not in target["labels"]


def test_a_port_that_is_elsewhere_is_scraped_there():
    (target,) = found(monitoring(), pod(), resolve=lambda _pod, _port: ("127.0.0.1", 23456))
    assert target["targets"] == ["127.0.0.1:23456"]


def test_pods_of_other_namespaces_and_finished_ones_are_left_out():
    finished, waiting = pod("b"), pod("c")
    finished["status"]["phase"] = "Succeeded"
    waiting["status"] = {"phase": "Pending"}
    assert found(monitoring(), pod(namespace="other"), finished, waiting) == []
    assert len(found(monitoring(filterRunning=False), finished)) == 1
    assert len(found(monitoring("ClusterPodMonitoring"), pod(namespace="other"))) == 1


def test_labels_are_taken_from_the_pod():
    labels = {"fromPod": [{"from": "team"}, {"from": "app", "to": "program"}]}
    (target,) = found(monitoring(targetLabels=labels), pod(team="search"))
    assert target["labels"]["team"] == "search"
    assert target["labels"]["program"] == "chat"


def test_an_endpoint_becomes_a_job_with_its_limits():
    keep = {"action": "keep", "sourceLabels": ["__name__"], "regex": "vllm:.*"}
    endpoint = {"port": "http", "interval": "1m", "timeout": "10s", "metricRelabeling": [keep]}
    wanted = monitoring(endpoints=[endpoint], limits={"samples": 500})
    made = scrape.scrape_configs(wanted, CLOCK, "/targets", "/tokens")
    assert made == {
        "PodMonitoring--llm--chat--http.json": {
            "job_name": "PodMonitoring/llm/chat/http",
            "file_sd_configs": [
                {
                    "files": ["/targets/PodMonitoring--llm--chat--http.json"],
                    "refresh_interval": "1m",
                }
            ],
            "honor_timestamps": False,
            "metric_relabel_configs": [
                {"action": "keep", "source_labels": ["__name__"], "regex": "vllm:.*"}
            ],
            "metrics_path": "/metrics",
            "sample_limit": 500,
            "scheme": "http",
            "scrape_interval": "1000ms",
            "scrape_timeout": "1000ms",
        }
    }


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"action": "replace", "targetLabel": "namespace"}, "protected label 'namespace'"),
        ({"action": "labeldrop", "regex": "job|other"}, "would drop"),
        ({"action": "labelkeep", "regex": "job"}, "would drop"),
        ({"action": "labelmap"}, "not allowed"),
        ({"action": "keep", "regex": "("}, "invalid regex"),
    ],
)
def test_relabelling_that_managed_prometheus_refuses_is_refused(rule, why):
    endpoint = {"port": "http", "interval": "15s", "metricRelabeling": [rule]}
    with pytest.raises(scrape.ConfigError, match=why):
        scrape.scrape_configs(monitoring(endpoints=[endpoint]), CLOCK, "/targets", "/tokens")


def secured(namespace=None, **authorization):
    """Return an endpoint with TLS and a token from the Secret `reader`."""
    secret = {"name": "reader", "key": "token"} | ({"namespace": namespace} if namespace else {})
    given = {"credentials": {"secret": secret}, **authorization}
    tls = {"insecureSkipVerify": True}
    return {"port": "http", "scheme": "https", "tls": tls, "authorization": given}


def test_a_target_with_a_token_gets_the_one_of_its_secret():
    wanted = monitoring(endpoints=[secured()])
    assert scrape.secret_keys(wanted) == {scrape.SecretKey("llm", "reader", "token")}
    (config,) = scrape.scrape_configs(wanted, CLOCK, "/targets", "/tokens").values()
    file = "/tokens/llm_reader_token"
    assert config["authorization"] == {"credentials_file": file, "type": "Bearer"}
    assert (config["scheme"], config["tls_config"]) == ("https", {"insecure_skip_verify": True})


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        (secured("other"), 'must use namespace "llm", got: "other"'),
        (secured(type="Basic"), 'authorization type cannot be set to "basic"'),
    ],
)
def test_a_token_that_managed_prometheus_refuses_is_refused(endpoint, why):
    with pytest.raises(scrape.ConfigError, match=why):
        scrape.scrape_configs(monitoring(endpoints=[endpoint]), CLOCK, "/targets", "/tokens")


def test_an_endpoint_with_a_password_is_refused():
    endpoint = {"port": "http", "interval": "15s", "basicAuth": {"username": "u"}}
    with pytest.raises(scrape.ConfigError, match="basicAuth"):
        scrape.scrape_configs(monitoring(endpoints=[endpoint]), CLOCK, "/targets", "/tokens")


def test_a_status_changes_only_with_the_generation_or_the_outcome():
    obj = {"metadata": {"generation": 2}}
    first = controller.status_of(obj, None, "t1")
    assert first is not None
    assert first["conditions"][0]["status"] == "True"
    assert controller.status_of(obj | {"status": first}, None, "t2") is None
    refused = controller.status_of(obj | {"status": first}, "no", "t2")
    assert refused is not None
    assert refused["conditions"][0]["lastTransitionTime"] == "t2"
    newer = controller.status_of({"metadata": {"generation": 3}, "status": first}, None, "t3")
    assert newer is not None
    assert newer["conditions"][0]["lastTransitionTime"] == "t1"


def test_a_load_balancer_is_named_after_its_gateway():
    classes = {("llm", "main"): ("gke-l7-regional-external-managed", "127.0.0.1:9901")}
    (target,) = system_jobs.load_balancer_targets(classes, CLUSTER)
    assert target["labels"]["url_map_name"] == "llm-main"
    prefix = "loadbalancing_googleapis_com:https_external_regional_"
    assert target["labels"]["metric_prefix"] == prefix


def test_series_of_a_load_balancer_are_of_a_region_and_of_no_cluster():
    classes = {("llm", "main"): ("gke-l7-rilb", "127.0.0.1:9901")}
    (target,) = system_jobs.load_balancer_targets(classes, {**CLUSTER, "location": "us-east5-a"})
    assert target["labels"]["region"] == "us-east5"
    assert target["labels"]["project_id"] == "acme"
    assert target["labels"].keys().isdisjoint({"cluster", "location"})


def test_a_global_load_balancer_writes_googles_series_for_it_under_its_own_name():
    assert system_jobs.front_targets(None, "acme") == []
    (target,) = system_jobs.front_targets("127.0.0.1:9902", "acme")
    assert target["labels"] == {
        "metric_prefix": balancers("external", has_front=True).clients.series + "_",
        "project_id": "acme",
        "region": "global",
    }
    rules = system_jobs.load_balancer_job("f", CLOCK)["metric_relabel_configs"]
    named = {rule["target_label"]: rule["regex"] for rule in rules if "target_label" in rule}
    assert named["url_map_name"] == named["forwarding_rule_name"] == "global;(.+)"
    order = [rule.get("target_label", rule.get("action")) for rule in rules]
    assert order.index("url_map_name") < order.index("labeldrop")


def test_the_port_of_a_container_beside_the_others_is_a_target_as_well():
    one = pod(ports=((9091, "metrics"),))
    engine = {"name": "vllm", "ports": [{"containerPort": 8000, "name": "http"}]}
    one["spec"]["initContainers"] = [{**engine, "restartPolicy": "Always"}]
    (target,) = found(monitoring(), one)
    assert target["targets"] == ["127.70.0.4:8000"]
