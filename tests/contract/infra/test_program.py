"""The whole program, for each stack, with a stand-in for the engine."""

import collections
import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra.deploy import exports
from infra.deploy.observability import observed_models
from infra.deploy.program import deploy
from infra.plan import resolve
from infra.plan.names import object_name
from infra.reading.built import ACCEPT, UNBUILT
from infra.reading.load import KEY, PROJECT, parse
from infra.reading.variants import stack_with_models
from infra.stack import Form, Platform
from tests.contract.infra import golden
from tests.contract.infra.broken_stacks import broken_stacks, edited
from tests.contract.infra.cloud import CloudRecorder, Deployed
from tests.contract.infra.resolved import stack as stack_named
from tests.contract.recorder import Registration

REPOSITORY = Path(__file__).parents[3]
STACKS = ("local", "dev", "staging", "prod")
Build = Callable[[str], list[Registration]]


@pytest.fixture
def build(deployed: Deployed) -> Build:
    """Returns what the program of a stack registers."""
    return lambda name: deployed(stack_named(name)).registrations


def named(registrations: list[Registration], kind: str) -> dict[str, Registration]:
    """Return the registrations of a kind, such as `Deployment`, by their name in the program."""
    return {seen.name: seen for seen in registrations if seen.type.endswith(f":{kind}")}


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_has_the_resources_it_had(build: Build, stack: str) -> None:
    counts = collections.Counter(seen.type for seen in build(stack))
    assert dict(counts) == golden.counts(stack), golden.ADVICE


@pytest.mark.parametrize("stack", STACKS)
def test_no_two_resources_have_one_name(build: Build, stack: str) -> None:
    names = collections.Counter((seen.type, seen.name) for seen in build(stack))
    assert [key for key, count in names.items() if count > 1] == []


def test_production_has_three_hundred_real_resources_and_more(build: Build) -> None:
    real = [seen for seen in build("prod") if not seen.type.startswith("gke-inference:")]
    assert len(real) >= 300


@pytest.mark.parametrize("stack", STACKS)
def test_every_model_has_in_each_of_its_regions_what_it_needs_to_serve(
    build: Build, stack: str
) -> None:
    platform = stack_named(stack)
    registrations = build(stack)
    deployments = named(registrations, "Deployment")
    scalers = named(registrations, "HorizontalPodAutoscaler")
    for name, model in platform.models.items():
        for region in platform.regions_of(model):
            logical = f"{region}-{object_name(name)}"
            servers = [key for key in deployments if key in _server_names(logical)]
            assert servers, f"{name} has no server in {region}"
            assert len([key for key in scalers if key.startswith(logical)]) == len(servers)
            assert f"{logical}-identity" in named(registrations, "ServiceAccount")
            assert f"{logical}-monitoring" in named(registrations, "PodMonitoring")
            routes = named(registrations, "HTTPRoute")
            assert f"{region}-gateway-{object_name(name)}-route-1" in routes
            backend = "InferencePool" if model.task.value == "generate" else "Service"
            assert any(
                key.startswith(f"{region}-gateway-{object_name(name)}")
                for key in named(registrations, backend)
            )


@pytest.mark.parametrize("stack", STACKS)
def test_every_object_of_a_cluster_has_the_same_field_manager_in_every_run(
    build: Build, stack: str
) -> None:
    annotation = "pulumi.com/patchFieldManager"
    managers = {
        seen.inputs["metadata"].get("annotations", {}).get(annotation)
        for seen in build(stack)
        if seen.type.startswith("kubernetes:")
    }
    assert managers == {f"gke-inference-acme-{stack}"}


@pytest.mark.parametrize("stack", STACKS)
def test_a_service_of_engines_is_not_waited_for(build: Build, stack: str) -> None:
    services = named(build(stack), "core/v1:Service").values()
    waited = [seen for seen in services if "gke-inference/model" in seen.inputs["spec"]["selector"]]
    marks = [seen.inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] for seen in waited]
    assert set(marks) <= {"true"}
    assert bool(marks) is (stack in {"dev", "prod"})


@pytest.mark.parametrize("stack", STACKS)
def test_every_deployment_finds_its_compute_class(build: Build, stack: str) -> None:
    registrations = build(stack)
    classes = {
        (seen.provider, seen.inputs["metadata"]["name"])
        for seen in registrations
        if seen.type.endswith(":ComputeClass") and seen.type.startswith("kubernetes:")
    }
    for seen in named(registrations, "Deployment").values():
        asked = seen.inputs["spec"]["template"]["spec"].get("nodeSelector", {})
        name = asked.get("cloud.google.com/compute-class")
        assert name is None or (seen.provider, name) in classes


def test_the_paired_model_runs_on_both_kinds_of_chip_with_one_pool(build: Build) -> None:
    registrations = build("local")
    platform = stack_named("local")
    assert platform.form_of(platform.models["llama-3.1-8b"]) is Form.PAIRED
    deployments = named(registrations, "Deployment")
    asked = {
        kind: deployments[f"us-central1-llama-3-1-8b-{kind}"].inputs["spec"]["template"]["spec"][
            "nodeSelector"
        ]["cloud.google.com/compute-class"]
        for kind in ("tpu", "gpu")
    }
    assert asked == {"tpu": "interactive-tpu", "gpu": "interactive-gpu"}
    assert len(named(registrations, "InferencePool")) == 1


def test_standby_zero_starts_without_a_gpu_replica(build: Build) -> None:
    scaler = named(build("local"), "HorizontalPodAutoscaler")
    gpu = scaler["us-central1-llama-3-1-8b-gpu-scaling"].inputs["spec"]
    assert gpu["minReplicas"] == 0
    assert gpu["metrics"][0]["type"] == "External"


def test_the_dual_container_model_has_pools_made_beforehand(build: Build) -> None:
    pools = named(build("dev"), "NodePool")
    assert {"us-central1-either-chip-0", "us-central1-either-chip-1"} <= set(pools)
    namespace = named(build("dev"), "Namespace")["us-central1-namespace"]
    levels: dict[str, str] = namespace.inputs["metadata"]["labels"]
    assert levels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_a_zonal_cluster_stands_in_its_zone_and_a_regional_one_in_its_region(build: Build) -> None:
    assert named(build("dev"), "Cluster")["us-central1"].inputs["location"] == "us-central1-b"
    assert named(build("local"), "Cluster")["us-central1"].inputs["location"] == "us-central1"


def test_autopilot_has_no_node_pool_of_ours(build: Build) -> None:
    clusters = named(build("staging"), "Cluster")
    assert clusters["us-east1"].inputs["enableAutopilot"] is True
    assert not [key for key in named(build("staging"), "NodePool") if key.startswith("us-east1")]


@pytest.mark.parametrize(("stack", "protected"), [("local", False), ("prod", True)])
def test_protection_keeps_clusters_and_full_buckets(
    build: Build, stack: str, protected: bool
) -> None:
    for cluster in named(build(stack), "Cluster").values():
        assert cluster.inputs["deletionProtection"] is protected
    for name, bucket in named(build(stack), "Bucket").items():
        if name.endswith("-models"):
            assert bucket.inputs["forceDestroy"] is not protected


def test_the_largest_model_reads_a_disk_in_every_zone_it_was_given(build: Build) -> None:
    disks = named(build("prod"), "Disk")
    zones = {disk.inputs["zone"] for disk in disks.values()}
    assert zones == {"us-central1-b", "europe-west4-a", "europe-west4-b", "asia-northeast1-b"}
    deployment = named(build("prod"), "Deployment")["us-central1-llama-3-3-70b-gpu"]
    volumes = deployment.inputs["spec"]["template"]["spec"]["volumes"]
    claims = [
        volume["persistentVolumeClaim"]
        for volume in volumes
        if len(volume) > 1 and "persistentVolumeClaim" in volume
    ]
    assert [claim["claimName"] for claim in claims] == ["llama-3-3-70b-weights"]


def test_the_nodes_of_capacity_that_asks_for_it_start_with_the_images(build: Build) -> None:
    classes = named(build("prod"), "ComputeClass")

    def storage(name: str) -> list[dict[str, Any]]:
        return [rung["storage"] for rung in classes[name].inputs["spec"]["priorities"]]

    assert all("secondaryBootDisks" in disks for disks in storage("us-central1-interactive-gpu"))
    for name in ("us-central1-interactive-tpu", "us-central1-heavy"):
        assert not any("secondaryBootDisks" in disks for disks in storage(name))


def test_clusters_ask_for_the_version_that_their_models_need(build: Build) -> None:
    asked = {
        f"{stack} {name}": cluster.inputs["minMasterVersion"]
        for stack in STACKS
        for name, cluster in named(build(stack), "Cluster").items()
    }
    assert asked == {
        "local us-central1": "1.37",  # standby: 0
        "dev us-central1": "1.36",
        "staging us-central1": "1.37",
        "staging us-east1": "1.36",
        "prod us-central1": "1.36",
        "prod europe-west4": "1.36",
        "prod asia-northeast1": "1.36",
    }


def test_upgrades_take_one_region_after_another_and_leave_protected_nodes(build: Build) -> None:
    policies = {
        f"{stack} {name}": cluster.inputs["maintenancePolicy"]
        for stack in ("staging", "prod")
        for name, cluster in named(build(stack), "Cluster").items()
    }
    starts = {
        name: policy["recurringMaintenanceWindow"]["windowStartTime"]["hours"]
        for name, policy in policies.items()
    }
    assert starts == {
        "staging us-central1": 2,
        "staging us-east1": 10,
        "prod us-central1": 9,
        "prod europe-west4": 1,
        "prod asia-northeast1": 17,
    }
    held = {name for name, policy in policies.items() if "maintenanceExclusions" in policy}
    assert held == {name for name in policies if name.startswith("prod")}


def test_only_a_new_autopilot_cluster_is_waited_for_until_it_has_gkes_kinds(build: Build) -> None:
    made = named(build("staging"), "ClusterKinds")
    assert sorted(made) == ["us-east1-kinds"]
    assert named(build("prod"), "ClusterKinds") == {}


def test_objects_of_gkes_kinds_are_created_after_an_autopilot_cluster_has_them(
    cloud: CloudRecorder,
) -> None:
    edits = [{"at": ["monitoring"], "value": {"metrics_adapter": False}}]  # whatever else it has
    platform = parse(json.dumps(edited("staging", edits)))
    cloud.run(lambda: deploy(platform))
    own = [
        request
        for (kind, name), request in cloud.requests.items()
        if name.startswith("us-east1")
        and re.match(r"kubernetes:(cloud\.google|inference|gateway\.networking|networking\.gke"
                     r"|monitoring\.google)", kind)
    ]  # fmt: skip
    assert len(own) >= 10
    for child in own:
        before: set[str] = set()  # a child is created after what its parents depend on
        request = child
        while request is not None:
            before |= {urn.rpartition("::")[2] for urn in request.dependencies}
            *_, kind, name = request.parent.split("::")
            request = cloud.requests.get((kind.rpartition("$")[2], name))
        assert "us-east1-kinds" in before


def test_every_cluster_has_a_metrics_adapter_and_the_project_one_grant_for_all(
    build: Build,
) -> None:
    adapters = named(build("prod"), "MetricsAdapter")
    assert sorted(adapters) == [
        f"{region}-metrics-adapter" for region in sorted(stack_named("prod").regions)
    ]
    grants = [
        seen
        for seen in named(build("prod"), "IAMMember").values()
        if seen.inputs["role"] == "roles/monitoring.viewer"
    ]
    assert [grant.name for grant in grants] == ["metrics-adapter"]


def test_a_stack_whose_clusters_have_an_adapter_gets_none(build: Build) -> None:
    assert stack_named("local").monitoring.metrics_adapter is False
    assert named(build("local"), "MetricsAdapter") == {}
    assert "metrics-adapter" not in named(build("local"), "IAMMember")


def test_a_pair_fills_up_for_its_own_cluster_only(build: Build) -> None:
    scalers = named(build("prod"), "HorizontalPodAutoscaler")
    for region in ("us-central1", "europe-west4"):
        metrics = scalers[f"{region}-llama-3-1-8b-gpu-scaling"].inputs["spec"]["metrics"]
        labels = metrics[0]["external"]["metric"]["selector"]["matchLabels"]
        assert labels["resource.labels.cluster"] == f"acme-prod-{region}"
        assert labels["resource.labels.location"] == region


def policy(build: Build, stack: str, alert: str) -> str:
    """Return what an alert policy of a stack asks."""
    (condition,) = named(build(stack), "AlertPolicy")[f"alerts-{alert}"].inputs["conditions"]
    asked: str = condition["conditionPrometheusQueryLanguage"]["query"]
    return asked


def test_a_model_without_a_picker_has_no_alert_about_one(build: Build) -> None:
    missed = policy(build, "prod", "endpoint-picker-down")
    assert 'job="llama-3-1-8b-picker",cluster="acme-prod-europe-west4"' in missed
    assert "qwen3-embedding" not in missed


@pytest.mark.parametrize("stack", STACKS)
def test_alerts_know_every_deployment_and_no_other(build: Build, stack: str) -> None:
    servers = {
        seen.inputs["metadata"]["name"]
        for seen in named(build(stack), "Deployment").values()
        if "ModelServer" in seen.parent
    }
    platform = stack_named(stack)
    known = {name for model in observed_models(resolve(platform)) for name in model["deployments"]}
    assert known == servers


def test_the_cost_of_a_replica_is_that_of_its_first_rung() -> None:
    plan = resolve(stack_named("prod"))
    model = next(m for m in observed_models(plan) if m["job"] == "llama-3-1-8b")
    first = exports.placements(plan.models["llama-3.1-8b"])["us-central1"]
    by_kind = {
        kind: next(p["usd_per_hour"] for p in first if chip in p["rung"] and "usd_per_hour" in p)
        for kind, chip in (("tpu", "tpu-v6e"), ("gpu", "nvidia-h100"))
    }
    assert model.get("prices") == {f"llama-3-1-8b-{k}": usd for k, usd in by_kind.items()}


def test_a_region_without_a_rung_uses_those_it_has(build: Build) -> None:
    classes = named(build("prod"), "ComputeClass")
    rungs = {
        region: len(classes[f"{region}-heavy"].inputs["spec"]["priorities"])
        for region in ("us-central1", "asia-northeast1")
    }
    assert rungs == {"us-central1": 3, "asia-northeast1": 2}


def test_apis_stay_on_when_the_platform_goes(build: Build) -> None:
    services = named(build("local"), "Service")
    apis = [seen for seen in services.values() if seen.type.startswith("gcp:")]
    assert len(apis) >= 8
    assert all(seen.inputs["disableOnDestroy"] is False for seen in apis)


@pytest.mark.parametrize("count", [1, 3])
def test_a_stack_grows_by_the_same_number_of_resources_for_each_model(
    cloud: CloudRecorder, count: int
) -> None:
    platform: Platform = parse(json.dumps(stack_with_models(count)[f"{PROJECT}:{KEY}"]))
    cloud.run(lambda: deploy(platform))
    servers = [seen for seen in cloud.registrations if seen.type.endswith(":ModelServer")]
    assert len(servers) == count


@pytest.mark.parametrize("count", [0, 1000])
def test_a_stack_of_no_models_or_too_many_cannot_be_made(count: int) -> None:
    with pytest.raises(ValueError, match="count must be 1 to 999"):
        stack_with_models(count)


@pytest.mark.parametrize("stack", STACKS)
def test_the_golden_files_are_sorted_yaml(stack: str) -> None:
    text = golden.file(stack).read_text()
    body = yaml.load(text, yaml.CSafeLoader)
    assert list(body["resources"]) == sorted(body["resources"])
    assert body["total"] == sum(body["resources"].values())


def _server_names(logical: str) -> set[str]:
    return {f"{logical}-{kind}" for kind in ("any", "gpu", "tpu")}


def test_the_program_of_a_broken_stack_says_why_and_registers_nothing(
    cloud: CloudRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = broken_stacks()[0]
    monkeypatch.setattr(pulumi.Config, "get", lambda _self, _key: json.dumps(broken.platform))
    with pytest.raises(pulumi.RunError, match=r"^Pulumi\.test\.yaml: ") as refused:
        runpy.run_path(str(REPOSITORY / "infra" / "__main__.py"), run_name="__main__")
    assert broken.expect in str(refused.value)
    assert cloud.registrations == []


def test_the_program_of_the_engine_is_the_platform_of_its_stack(
    cloud: CloudRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(edited("dev", []))
    monkeypatch.setattr(pulumi.Config, "get", lambda _self, _key: text)
    monkeypatch.setenv(UNBUILT, ACCEPT)
    cloud.run(lambda: runpy.run_path(str(REPOSITORY / "infra" / "__main__.py")) and None)
    assert len(cloud.registrations) == sum(golden.counts("dev").values())
