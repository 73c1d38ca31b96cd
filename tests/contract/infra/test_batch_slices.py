"""Own engines of batches on slices of several hosts: the set of jobs, and what runs it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.reading.load import parse
from tests.contract.components_k8s import crds
from workloads.batch.engines import job_of

EXAMPLE = Path(__file__).parents[3] / "docs/examples/batch-slices/Pulumi.batch-slices.yaml"
NAME = "batch-llama-3-1-70b"
NAMESPACE = "jobs-nightly"
HOSTS = 4
DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"


@pytest.fixture(name="seen")
def built(deployed: Any) -> Any:
    config = yaml.load(EXAMPLE.read_text(), yaml.CSafeLoader)["config"]["gke-inference:platform"]
    return deployed(parse(json.dumps(config)))


def set_of(seen: Any) -> Any:
    (text,) = [
        each.inputs["data"]["settings.json"]
        for each in seen.all("kubernetes:core/v1:ConfigMap")
        if each.inputs["metadata"]["namespace"] == "models"
        and each.inputs["metadata"]["name"] == "batch"
    ]
    (job,) = json.loads(text)["engines"].values()
    return job


def pod_of(job: Any) -> Any:
    return job["template"]["spec"]["template"]["spec"]


def test_a_batch_is_a_set_with_a_pod_for_each_host_that_ends_with_its_leader(seen: Any) -> None:
    made = set_of(seen)
    crds.check(made)
    assert (made["kind"], made["metadata"]["namespace"]) == ("JobSet", NAMESPACE)
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "slices"
    leader, workers = made["spec"]["replicatedJobs"]
    assert (leader["name"], leader["replicas"]) == ("leader", 1)
    assert (workers["name"], workers["replicas"]) == ("workers", HOSTS - 1)
    for each in (leader, workers):
        spec = each["template"]["spec"]
        assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 0)
        pod = pod_of(each)
        assert not {"nodeSelector", "tolerations"} & pod.keys()
        assert (pod["restartPolicy"], pod["serviceAccountName"]) == ("Never", NAME)
    assert made["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["leader"]}


def test_only_failures_count_against_the_restarts_of_a_set(seen: Any) -> None:
    made = set_of(seen)["spec"]
    policy = made["failurePolicy"]
    assert policy["maxRestarts"] == 3
    (rule,) = policy["rules"]
    assert rule["action"] == "RestartJobSetAndIgnoreMaxRestarts"
    assert rule["onJobFailureReasons"] == ["PodFailurePolicy"]
    leader, workers = (
        each["template"]["spec"]["podFailurePolicy"]["rules"] for each in made["replicatedJobs"]
    )
    disrupted = {
        "action": "FailJob",
        "onPodConditions": [{"status": "True", "type": "DisruptionTarget"}],
    }
    stored = {"containerName": "batch", "operator": "In", "values": [143]}
    assert leader == [disrupted, {"action": "FailJob", "onExitCodes": stored}]
    assert workers == [disrupted]


def test_a_worker_waits_for_the_engine_as_long_as_the_service_does(seen: Any) -> None:
    leader, workers = (pod_of(each) for each in set_of(seen)["spec"]["replicatedJobs"])
    assert "startupProbe" in leader["initContainers"][0]
    probes = {key for each in workers["containers"] for key in each if key.endswith("Probe")}
    assert probes == {"readinessProbe"}


def test_the_leader_has_the_worker_of_the_batch_and_the_others_join_its_engine(seen: Any) -> None:
    made = set_of(seen)
    leader, workers = (pod_of(each) for each in made["spec"]["replicatedJobs"])
    (engine,) = leader["initContainers"]
    (answers,) = leader["containers"]
    (joins,) = workers["containers"]
    assert engine["restartPolicy"] == "Always"
    assert answers["name"] == "batch"
    for each in (engine, joins):
        assert each["resources"]["limits"] == {"google.com/tpu": "4"}
        told = {one["name"]: one.get("value") for one in each["env"]}
        assert told["LWS_LEADER_ADDRESS"] == f"$(BATCH_SET)-leader-0-0.$(BATCH_SET).{NAMESPACE}"
        assert told["LWS_GROUP_SIZE"] == str(HOSTS)
        assert told["TPU_WORKER_HOSTNAMES"].split(",")[1:] == [
            f"$(BATCH_SET)-workers-{at}-0.$(BATCH_SET).{NAMESPACE}" for at in range(HOSTS - 1)
        ]
    assert "ray start --head" in engine["command"][2]
    assert "ray start --address" in joins["command"][2]
    named = job_of(made, "batch_7")
    assert named["metadata"]["name"] == "batch-7"
    first, second = named["spec"]["replicatedJobs"]
    assert pod_of(first)["containers"][0]["args"] == ["work", "/etc/batch/settings.json", "batch_7"]
    assert pod_of(second) == workers


def test_a_set_has_a_slice_without_sets_of_any_namespace(seen: Any) -> None:
    label = "jobset.sigs.k8s.io"
    here = {
        "labelSelector": {
            "matchExpressions": [{"key": f"{label}/jobset-name", "operator": "Exists"}]
        },
        "topologyKey": "cloud.google.com/gke-nodepool",
    }
    own = [f"{label}/jobset-uid", f"{label}/restart-attempt"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for each in set_of(seen)["spec"]["replicatedJobs"]:
        assert pod_of(each)["affinity"] == {
            "podAffinity": {required: [{**here, "matchLabelKeys": own}]},
            "podAntiAffinity": {
                required: [{**here, "mismatchLabelKeys": own[:1], "namespaceSelector": {}}]
            },
        }


def test_the_service_may_manage_sets_there_instead_of_jobs(seen: Any) -> None:
    role = seen.object("kubernetes:rbac.authorization.k8s.io/v1:Role", NAME)
    assert role["rules"][0] == {
        "apiGroups": ["jobset.x-k8s.io"],
        "resources": ["jobsets"],
        "verbs": ["create", "delete", "get"],
    }


def test_the_region_has_the_operator_and_kueue_queues_its_sets(seen: Any) -> None:
    names = [each.inputs["metadata"]["name"] for each in seen.all(DEFINITION)]
    assert "jobsets.jobset.x-k8s.io" in names
    (text,) = [
        each.inputs["data"]["controller_manager_config.yaml"]
        for each in seen.all("kubernetes:core/v1:ConfigMap")
        if each.inputs["metadata"]["name"] == "kueue-manager-config"
    ]
    assert yaml.load(text, yaml.CSafeLoader)["integrations"]["frameworks"] == [
        "batch/job",
        "jobset.x-k8s.io/jobset",
    ]
