"""Rungs without an accelerator: classes and pods, costs and quotas, and who may use them."""

import json
from typing import Any

import pytest

from gke_inference.catalogue.prices import committed_price, rung_price
from gke_inference.catalogue.rungs import check_rung
from infra.estimate.chip_limits import chips
from infra.estimate.cold_starts import starts
from infra.estimate.quota_needs import needs
from infra.estimate.stack_cost import stack_cost
from infra.plan import Plan, resolve
from infra.reading.load import parse, platform_of
from scripts.check.preflight_checks import lines
from scripts.report.places import ladders
from tests.contract.infra.cloud import Deployed
from tests.contract.recorder import Records
from tests.shipped_stacks import EXAMPLES

DOCUMENT = platform_of(EXAMPLES / "predictive" / "Pulumi.predictive.yaml")
C3, N4 = (
    {"machine_type": f"{each}-standard-8", "provisioning": "on-demand"} for each in ("c3", "n4")
)
L4 = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}
REGION = "us-central1"


def stack(*rungs: dict[str, Any], **more: Any) -> str:
    """Return the example with other rungs for the classifier, and other settings of it."""
    capacity = {**DOCUMENT["capacity"]["processors"]}
    if rungs:
        capacity["rungs"] = list(rungs)
    if "node_pools" in more:
        capacity["node_pools"] = more.pop("node_pools")
    found = {**DOCUMENT, "capacity": {**DOCUMENT["capacity"], "processors": capacity}}
    model = {**DOCUMENT["models"]["fraud"], **more.pop("model", {})}
    found["models"] = {**DOCUMENT["models"], "fraud": model, **more.pop("models", {})}
    return json.dumps({**found, **more})


def planned(*rungs: dict[str, Any], **more: Any) -> Plan:
    return resolve(parse(stack(*rungs, **more)))


def objects(made: Records, kind: str) -> dict[str, dict[str, Any]]:
    return {
        seen.inputs["metadata"]["name"]: seen.inputs
        for seen in made.registrations
        if seen.inputs.get("kind") == kind
    }


def test_a_class_names_machines_alone_and_its_pods_ask_for_most_of_one(deployed: Deployed):
    made = deployed(parse(stack()))
    rules = objects(made, "ComputeClass")["processors"]["spec"]["priorities"]
    assert [rule["machineType"] for rule in rules] == [
        "c3-standard-8",
        "n4-standard-8",
        "c4a-standard-8",
    ]
    assert all("gpu" not in rule and "tpu" not in rule for rule in rules)
    assert [rule["spot"] for rule in rules] == [False, False, True]
    assert [rule["storage"]["bootDiskType"] for rule in rules] == [
        "pd-balanced",
        "hyperdisk-balanced",
        "hyperdisk-balanced",
    ]
    deployment = objects(made, "Deployment")["fraud-cpu"]["spec"]["template"]["spec"]
    (engine,) = deployment["containers"]
    assert engine["resources"] == {
        "limits": {"memory": "22Gi"},
        "requests": {"cpu": "6", "memory": "22Gi"},
    }
    assert "--hardware=cpu" in engine["command"]
    assert deployment["securityContext"]["runAsUser"] == 1000
    assert "LD_LIBRARY_PATH" not in {each["name"] for each in engine["env"]}
    tolerated = {(each["key"], each.get("value")) for each in deployment["tolerations"]}
    assert tolerated == {
        ("kubernetes.io/arch", "arm64"),
        ("cloud.google.com/gke-spot", "true"),
        ("cloud.google.com/compute-class", "processors"),
    }


def test_pods_of_x86_rungs_tolerate_no_arm(deployed: Deployed):
    made = objects(deployed(parse(stack(C3, N4))), "Deployment")
    spec = made["fraud-cpu"]["spec"]["template"]["spec"]
    assert "kubernetes.io/arch" not in {each["key"] for each in spec["tolerations"]}


def test_pools_of_the_stack_have_no_guest_accelerators(deployed: Deployed):
    made = deployed(parse(stack(C3, N4, node_pools={"max_nodes": 3})))
    pools = {
        seen.inputs["nodeConfig"]["machineType"]: seen.inputs
        for seen in made.registrations
        if seen.type == "gcp:container/nodePool:NodePool" and "processors" in seen.name
    }
    assert set(pools) == {"c3-standard-8", "n4-standard-8"}
    for pool in pools.values():
        assert "guestAccelerators" not in pool["nodeConfig"]
        assert pool["autoscaling"]["totalMaxNodeCount"] == 3
    rules = objects(made, "ComputeClass")["processors"]["spec"]["priorities"]
    assert all(list(rule) == ["nodepools"] for rule in rules)


def test_processors_are_what_a_gpu_model_falls_back_to(deployed: Deployed):
    text = stack(L4, C3, N4, model={"replicas": {"min": 1, "max": 3, "standby": 1}})
    made = deployed(parse(text))
    classes = objects(made, "ComputeClass")
    assert [rule["machineType"] for rule in classes["processors-cpu"]["spec"]["priorities"]] == [
        "c3-standard-8",
        "n4-standard-8",
    ]
    assert "gpu" in classes["processors-gpu"]["spec"]["priorities"][0]
    scalers = objects(made, "HorizontalPodAutoscaler")
    fills = [each["type"] for each in scalers["fraud-cpu"]["spec"]["metrics"]]
    assert fills == ["External", "Pods"]
    assert [each["type"] for each in scalers["fraud-gpu"]["spec"]["metrics"]] == ["Pods"]
    (served,) = resolve(parse(text)).models["fraud"]
    assert served.filling_kind == "cpu"
    assert [rung.kind for half in served.pair for rung in half.values()] == ["gpu", "cpu", "cpu"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            stack(
                models={"qwen3-4b": {**DOCUMENT["models"]["qwen3-4b"], "capacity": "processors"}}
            ),
            "models.qwen3-4b.engine must run on every rung: vLLM supports only gpu and tpu, not"
            " c3-standard-8 on-demand, got 'vllm'",
        ),
        (
            stack(C3, L4),
            "models.fraud.capacity must have the rungs without an accelerator last, but"
            " capacity.processors.rungs[1] follows capacity.processors.rungs[0]",
        ),
        (
            stack(L4, C3, model={"form": "dra"}),
            "models.fraud.form must be paired when there are rungs with an accelerator and without",
        ),
        (
            stack({**C3, "machine_type": "c3-highcpu-4"}),
            "models.fraud.capacity must have 15 GiB of memory for the pod on every rung (8 for the"
            " engine, 2 for the model, 2 of shared memory, 3 for the file cache);"
            " capacity.processors.rungs[0]: c3-highcpu-4 has",
        ),
        (
            stack(model={"size": {"parameters_billion": 4, "bits": 32}}),
            "models.fraud.capacity must have",
        ),
        (
            stack({**C3, "machine_type": "g2-standard-8"}),
            "capacity.processors.rungs[0].machine_type must be of a machine family for rungs"
            " without an accelerator (c3, c3d, c4, c4a, c4d, e2, n2, n2d, n4, t2d), got"
            " 'g2-standard-8'",
        ),
        (
            stack({**C3, "provisioning": "flex-start"}),
            "capacity.processors.rungs[0].provisioning must be reservation or on-demand or spot for"
            " c3-standard-8, got 'flex-start'",
        ),
        (
            stack({**C3, "count": 1}),
            "capacity.processors.rungs[0].count must not be set without an accelerator, got 1",
        ),
        (
            stack(
                model={"capacity": "gpus"},
                queues={
                    "jobs": {
                        "flavors": [{"capacity": "processors", "chips": 4}],
                        "teams": {"ml": {"chips": {"processors": 4}}},
                    }
                },
            ),
            "queues.jobs.flavors[0].capacity must have an accelerator on every rung: quotas of a"
            " queue are chips, got 'processors'",
        ),
        (
            stack(
                images={
                    "repository": "own",
                    "digests": {"tritonserver-gpu": f"sha256:{'0' * 64}"},
                }
            ),
            "capacity.processors.rungs[2].machine_type must be of an x86 family while"
            " images.digests has tritonserver-gpu, an image of x86, got 'c4a-standard-8'",
        ),
    ],
)
def test_what_processors_cannot_have_is_rejected(text: str, expected: str):
    with pytest.raises(Exception, match="must") as refused:
        parse(text)
    assert expected in str(refused.value)


def test_the_vcpus_of_each_family_count_against_its_quota_and_no_chip_does():
    plan = planned()
    found = {need.metric.label: need.amount for need in needs(plan)}
    nodes = 2 * (3 + 1) + 1  # model and canary, each with one more in an update; one in an upgrade
    assert found["C3_CPUS"] == nodes * 8
    assert found["CPUS_PER_VM_FAMILY N4"] == nodes * 8
    assert found["CPUS_PER_VM_FAMILY C4A"] == nodes * 8  # Spot without a quota of its own
    assert chips(plan.regions[REGION]) == {"gpu": 3, "tpu": 0}  # those of the model of text


def test_a_replica_costs_its_machine_on_demand_as_spot_and_with_a_commitment():
    line = stack_cost(planned(N4)).bill.lines[0]
    assert line.first is not None
    assert (line.first.rung, line.minimum.value) == ("n4-standard-8 on-demand", 0.3628)
    for family, spot, three_years in (("c3", 0.12558, 0.18145), ("c4a", 0.17982, 0.16168)):
        rung = check_rung({"machine_type": f"{family}-standard-8", "provisioning": "spot"})
        found = rung_price(rung, REGION), committed_price(rung, REGION, 3)
        assert [each and each.usd_per_hour for each in found] == [spot, three_years]
    unknown = check_rung({"machine_type": "c3-highcpu-8", "provisioning": "on-demand"})
    assert rung_price(unknown, REGION) is None  # never a guess


def test_a_start_on_processors_compiles_nothing_and_its_memory_is_that_of_the_machine():
    plan = planned(C3)
    (found,) = (each for each in starts(plan) if each.model == "fraud")
    seconds = {stage.name: stage.seconds for stage in found.start.stages}
    assert (seconds["node"], seconds["compile"]) == (60, 0)
    (checked,) = (each for each in lines(plan) if each.model == "fraud")
    assert checked.memory.ok is True
    assert checked.memory.brief == "15 of 25 GiB"


def test_the_report_names_machines_that_have_no_chips():
    (ladder,) = (each for each in ladders(planned()) if each.name == "processors")
    assert [step.title for step in ladder.steps] == [
        "c3-standard-8",
        "n4-standard-8",
        "c4a-standard-8",
    ]
