"""No accelerator is asked for before there is something to serve on it."""

import json
from typing import Any

import pytest

from gke_inference.serving.launcher.spec import NEEDS, REPLICAS, STATE
from gke_inference.serving.model_objects import deployments
from gke_inference.serving.weights_gate import WeightsGate, gate_objects
from tests.model_plans import planned


def made(args):
    return deployments(planned(args))


def test_servers_behind_a_gate_begin_with_no_replica_and_say_what_they_read(args):
    found = made({**args, "has_gate": True, "standby_replicas": 0})
    assert {kind: each["spec"]["replicas"] for kind, each in found.items()} == {"gpu": 0, "tpu": 0}
    notes = {kind: each["metadata"]["annotations"] for kind, each in found.items()}
    assert {kind: each[REPLICAS] for kind, each in notes.items()} == {"gpu": "1", "tpu": "2"}
    for each in notes.values():
        assert json.loads(each[NEEDS]) == [
            "gs://acme-models/llama",
            "adapter:gs://acme-models/llama/adapters/sql",
        ]


def test_a_draft_model_is_waited_for_too(gpu_only):
    guess = {"method": "draft", "tokens": 4, "weights": "gs://acme-models/small@v3"}
    found = made({**gpu_only, "has_gate": True, "adapters": {}, "settings": {"speculative": guess}})
    (needs,) = {each["metadata"]["annotations"][NEEDS] for each in found.values()}
    assert json.loads(needs) == ["gs://acme-models/llama", "gs://acme-models/small@v3"]


def test_servers_without_a_gate_begin_with_their_replicas(args):
    found = made(args)
    assert {kind: each["spec"]["replicas"] for kind, each in found.items()} == {"gpu": 1, "tpu": 2}
    assert not any(NEEDS in each["metadata"]["annotations"] for each in found.values())


def test_one_pod_for_both_kinds_of_hardware_waits_as_well(dual):
    (found,) = made({**dual, "has_gate": True}).values()
    assert found["spec"]["replicas"] == 0
    assert found["metadata"]["annotations"][REPLICAS] == "2"


def test_the_gate_may_scale_workloads_and_keep_one_config_map_and_nothing_else():
    rules = gate_objects("models", "weights-gate")["role"]["rules"]
    assert rules == [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"]},
        {
            "apiGroups": ["leaderworkerset.x-k8s.io"],
            "resources": ["leaderworkersets"],
            "verbs": ["list", "watch"],
        },
        {
            "apiGroups": ["leaderworkerset.x-k8s.io"],
            "resources": ["leaderworkersets/scale"],
            "verbs": ["patch"],
        },
        {
            "apiGroups": ["ray.io"],
            "resources": ["rayclusters"],
            "verbs": ["list", "patch", "watch"],
        },
        {
            "apiGroups": ["gke-inference.internal"],
            "resources": ["rayclustersets/scale"],
            "verbs": ["patch"],
        },
        {
            "apiGroups": ["autoscaling"],
            "resources": ["horizontalpodautoscalers"],
            "verbs": ["list"],
        },
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resourceNames": [STATE],
            "resources": ["configmaps"],
            "verbs": ["get", "patch"],
        },
    ]


def test_the_gate_runs_the_launchers_own_code_unprivileged():
    objects = gate_objects("models", "weights-gate")
    pod = objects["deployment"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == ["python3", "-m", "engine.gate"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["serviceAccountName"] == "weights-gate"
    assert {"gate.py", "bucket.py", "weights_manifest.py"} <= objects["files"]["data"].keys()


@pytest.mark.parametrize("field", ["namespace", "service_account"])
def test_a_name_that_cannot_be_is_refused(recorder, field):
    args: Any = {
        "namespace": "models",
        "service_account": "weights-gate",
        field: "Not a name",
    }
    with pytest.raises(Exception, match="must"):
        recorder.run(lambda: WeightsGate("gate", args))
