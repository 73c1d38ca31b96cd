"""Own engines of batches: the job that the service creates, and what it may use."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gke_inference.serving import startup
from gke_inference.serving.startup import LEAST_MINUTES
from infra.reading.load import parse
from workloads.batch.settings import start_seconds

EXAMPLE = Path(__file__).parents[3] / "docs/examples/batch-engines/Pulumi.batch-engines.yaml"
NAME = "batch-llama-3-1-8b"
NAMESPACE = "jobs-nightly"


def config() -> dict[str, Any]:
    return yaml.load(EXAMPLE.read_text(), yaml.CSafeLoader)["config"]["gke-inference:platform"]


@pytest.fixture(name="seen")
def built(deployed: Any) -> Any:
    return deployed(parse(json.dumps(config())))


def text_of(seen: Any, namespace: str, name: str) -> Any:
    (found,) = [
        each.inputs["data"]["settings.json"]
        for each in seen.all("kubernetes:core/v1:ConfigMap")
        if each.inputs["metadata"]["namespace"] == namespace
        and each.inputs["metadata"]["name"] == name
    ]
    return json.loads(found)


def job_of(seen: Any) -> Any:
    (job,) = text_of(seen, "models", "batch")["engines"].values()
    return job


def test_the_service_has_the_job_of_each_engine_and_the_models_that_it_answers(seen: Any) -> None:
    found = text_of(seen, "models", "batch")
    model = found["models"]["llama-3.1-8b"]
    assert model["engine"] in found["engines"]
    assert "objective" not in model  # there is nobody beside it
    assert found["metrics_of_pickers"] == []
    job = found["engines"][model["engine"]]
    assert job["metadata"]["namespace"] == NAMESPACE
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "chips"


def test_a_jobs_pod_has_an_engine_beside_the_worker_and_leaves_its_nodes_to_kueue(
    seen: Any,
) -> None:
    pod = job_of(seen)["spec"]["template"]["spec"]
    (engine,) = pod["initContainers"]
    (worker,) = pod["containers"]
    assert engine["restartPolicy"] == "Always"
    assert engine["resources"]["limits"] == {"google.com/tpu": "4"}
    at = engine["args"].index("--max-num-batched-tokens=2048")
    assert at > 0
    assert (worker["name"], worker["args"]) == ("batch", ["work", "/etc/batch/settings.json"])
    assert (pod["restartPolicy"], pod["serviceAccountName"]) == ("Never", NAME)
    assert not {"nodeSelector", "tolerations"} & pod.keys()
    assert job_of(seen)["spec"]["podFailurePolicy"]["rules"][0]["action"] == "Ignore"


def test_the_worker_asks_the_engine_of_its_pod(seen: Any) -> None:
    found = text_of(seen, NAMESPACE, NAME)
    assert found["endpoint"] == "http://$(POD_IP):8000"
    assert sorted(found["models"]) == ["llama-3.1-8b", "sql", "support"]
    assert found["max_in_flight"] == 256


def test_the_service_may_only_manage_jobs_and_list_their_pods_there(seen: Any) -> None:
    role = seen.object("kubernetes:rbac.authorization.k8s.io/v1:Role", NAME)
    assert role["metadata"]["namespace"] == NAMESPACE
    assert role["rules"] == [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "delete", "get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]
    kind = "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding"
    binding = seen.object(kind, NAME)
    (subject,) = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == ("batch", "models")


def probed_seconds(job: Any) -> int:
    """Return for how long the startup probe of a job's engine may fail."""
    (engine,) = job["spec"]["template"]["spec"]["initContainers"]
    probe = engine["startupProbe"]
    return probe["failureThreshold"] * probe["periodSeconds"]


def test_an_engine_may_start_twice_before_its_batch_fails(seen: Any) -> None:
    job = job_of(seen)
    assert start_seconds(job) == 2 * LEAST_MINUTES * 60 == 2 * probed_seconds(job)


def test_a_batch_waits_longer_for_an_engine_whose_weights_take_longer_to_read(
    deployed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup, "READ_GB_PER_SECOND", 0.0086)  # 16.06 GB at 1.5 times its time
    own = {**config(), "project": "acme-slow-disks"}  # what tests share has the usual rate
    job = job_of(deployed(parse(json.dumps(own))))
    assert start_seconds(job) == 2 * probed_seconds(job) > 2 * LEAST_MINUTES * 60


def test_jobs_use_the_buckets_of_batches_weights_and_caches(seen: Any) -> None:
    members = [each.inputs for each in seen.all("gcp:storage/bucketIAMMember:BucketIAMMember")]
    of_jobs = [each for each in members if each["member"].endswith(f"/ns/{NAMESPACE}/sa/{NAME}")]
    assert sorted(each["role"] for each in of_jobs) == [
        "roles/storage.objectUser",
        "roles/storage.objectUser",
        "roles/storage.objectViewer",
    ]


def test_the_metrics_of_worker_and_engine_are_stored_from_pods_that_collectors_reach(
    seen: Any,
) -> None:
    kind = "kubernetes:monitoring.googleapis.com/v1:PodMonitoring"
    (scraped,) = [
        each.inputs for each in seen.all(kind) if each.inputs["metadata"]["namespace"] == NAMESPACE
    ]
    own = job_of(seen)["spec"]["template"]["metadata"]["labels"]
    assert scraped["spec"]["selector"]["matchLabels"] == own
    pod = job_of(seen)["spec"]["template"]["spec"]
    ports = {
        port["name"]: port["containerPort"]
        for container in (*pod["containers"], *pod["initContainers"])
        for port in container["ports"]
    }
    asked = [ports[each["port"]] for each in scraped["spec"]["endpoints"]]
    assert asked == [9091, 8000]
    wall = seen.object("kubernetes:networking.k8s.io/v1:NetworkPolicy", NAME)["spec"]
    assert wall["podSelector"]["matchLabels"] == own
    (rule,) = wall["ingress"]
    assert sorted(port["port"] for port in rule["ports"]) == sorted(asked)
    (peer,) = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "gmp-system"}
