"""Models on Cloud Run in a stack: services that the relay calls, their cost and their quota."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from infra.deploy.backends import backends_args
from infra.estimate.quota_check import Limit, request, standings
from infra.estimate.quota_needs import Need, needs
from infra.estimate.stack_cost import stack_cost
from infra.plan import Plan, resolve
from infra.reading.load import parse, platform_of
from infra.stack.problems import StackError
from scripts.models.places import targets
from tests.shipped_stacks import EXAMPLES

SERVICE = "gcp:cloudrunv2/service:Service"
INVOKER = "gcp:cloudrunv2/serviceIamMember:ServiceIamMember"
NAME = "gemma-3-4b"
URL = "https://acme-cloud-run-run-gemma-3-4b-314159265358.us-central1.run.app"
CALLER = "acme-cloud-run-relay@acme-inference-cloud-run.iam.gserviceaccount.com"


def document() -> dict[str, Any]:
    """Return the example of the repository, for a test to change."""
    return copy.deepcopy(platform_of(EXAMPLES / "cloud-run" / "Pulumi.cloud-run.yaml"))


def resolved(change: Callable[[dict[str, Any]], Any] = lambda _: None) -> Plan:
    changed = document()
    change(changed)
    return resolve(parse(json.dumps(changed)))


def second_region(changed: dict[str, Any]) -> None:
    """Add a region with its own gateway, where Cloud Run has L4 too."""
    ranges = {
        "nodes": "10.32.0.0/20",
        "pods": "10.48.0.0/14",
        "services": "10.33.0.0/20",
        "proxies": "10.34.0.0/23",
    }
    changed["regions"]["europe-west4"] = {
        **changed["regions"]["us-central1"],
        "ranges": ranges,
        "zones": ["europe-west4-a", "europe-west4-b", "europe-west4-c"],
    }


@pytest.fixture
def seen(deployed: Any) -> Any:
    return deployed(parse(json.dumps(document())))


def relay_of(seen: Any) -> dict[str, Any]:
    """Return the configuration of the relay of backends."""
    (found,) = [
        json.loads(each.inputs["data"]["relay.yaml"])
        for each in seen.all("kubernetes:core/v1:ConfigMap")
        if each.inputs["metadata"]["name"] == "relay"
    ]
    return found["backends"]


def test_a_target_that_is_deployed_is_a_service_of_the_region_with_its_own_account(
    seen: Any,
) -> None:
    services = {each.inputs["name"]: each.inputs for each in seen.all(SERVICE)}
    roles = ("gemma-3-4b", "llama-on-cloud-run-1")
    assert list(services) == [f"acme-cloud-run-run-{role}" for role in roles]
    template = services["acme-cloud-run-run-gemma-3-4b"]["template"]
    assert template["timeout"] == "900s"
    assert template["scaling"] == {"maxInstanceCount": 2, "minInstanceCount": 0}
    (container,) = template["containers"]
    folder = "gs://acme-cloud-run-models-us-central1/gemma-3-4b/1.0.0"
    assert container["args"][:2] == [folder, f"--served-model-name={NAME}"]
    accounts = {each["template"]["serviceAccount"] for each in services.values()}
    assert len(accounts) == 2
    readers = {
        each.inputs["member"].removeprefix("serviceAccount:")
        for each in seen.all("gcp:storage/bucketIAMMember:BucketIAMMember")
        if each.inputs["role"] == "roles/storage.objectViewer"
        and each.inputs["bucket"] == "acme-cloud-run-models-us-central1"
    }
    assert accounts < readers


def test_the_relay_calls_it_as_an_invoker_with_a_token_for_its_url(seen: Any) -> None:
    (target,) = relay_of(seen)[NAME]["targets"]
    assert (target["url"], target["model"]) == (f"{URL}/v1", NAME)
    auth = {"audience": URL, "kind": "id-token", "service_account": CALLER}
    assert target["auth"] == auth
    granted = {each.inputs["name"]: each.inputs for each in seen.all(INVOKER)}
    assert set(granted) == {each.inputs["name"] for each in seen.all(SERVICE)}
    assert {each["role"] for each in granted.values()} == {"roles/run.invoker"}


def test_another_target_answers_beside_it(seen: Any) -> None:
    vertex, cloud_run = relay_of(seen)["llama-on-cloud-run"]["targets"]
    assert (vertex["auth"]["kind"], vertex["weight"]) == ("google", 9)
    assert (cloud_run["auth"]["kind"], cloud_run["weight"]) == ("id-token", 1)


def test_each_region_has_a_service_that_its_own_relay_calls() -> None:
    plan = resolved(second_region)
    assert plan.backends is not None
    hosts = {
        name: backends_args(plan.backends, plan.front.gateway, region)["backends"][NAME]
        .targets[0]
        .url
        for name, region in plan.regions.items()
    }
    assert hosts == {"us-central1": URL, "europe-west4": URL.replace("us-central1", "europe-west4")}
    weights = {each.region: each.weights for each in plan.backends.services if each.at == 0}
    assert weights["europe-west4"] == "gs://acme-cloud-run-models-europe-west4/gemma-3-4b@1.0.0"


def test_relays_of_regions_without_a_service_call_that_of_the_first() -> None:
    def one_region(changed: dict[str, Any]) -> None:
        second_region(changed)
        changed["backends"][NAME]["deploy"]["regions"] = ["europe-west4"]

    plan = resolved(one_region)
    assert plan.backends is not None
    assert plan.backends.service_of(NAME, 0, "us-central1").region == "europe-west4"
    assert [each.backend for each in plan.backends.services_in("us-central1")] == [
        "llama-on-cloud-run"
    ]


def test_the_api_and_the_engine_image_are_those_of_a_stack_with_a_service() -> None:
    def without(changed: dict[str, Any]) -> None:
        del changed["backends"][NAME], changed["clients"]["prices"][NAME]
        changed["clients"]["teams"]["assistant"]["models"].remove(NAME)
        del changed["backends"]["llama-on-cloud-run"]["targets"][1]

    assert "run.googleapis.com" in resolved().project.services
    assert "run.googleapis.com" not in resolved(without).project.services
    assert "vllm_gpu" in resolved().images.programs
    assert "vllm_gpu" not in resolved(without).images.programs


def test_instances_cost_their_hours_and_idle_minimum_instances_all_of_them() -> None:
    def minimum(changed: dict[str, Any]) -> None:
        changed["backends"][NAME]["deploy"]["min_instances"] = 1

    hour = 0.67212 + 8 * 0.0648 + 32 * 0.0072
    for change, least in ((lambda _: None, 0), (minimum, 1)):
        found = stack_cost(resolved(change), mean_share=0.25)
        (line,) = [each for each in found.parts if each.what.startswith(f"Cloud Run {NAME}")]
        assert line.what == f"Cloud Run {NAME}: nvidia-l4, 8 vCPUs, 32 GiB"
        assert line.minimum.value == pytest.approx(least * hour)
        assert line.expected.value == pytest.approx(max(least, 0.5) * hour)
        assert line.maximum.value == pytest.approx(2 * hour)


def test_a_region_without_a_published_price_is_in_no_total() -> None:
    found = stack_cost(resolved(second_region))
    missing = {(each.what, each.region) for each in found.missing}
    assert (f"Cloud Run {NAME}: nvidia-l4, 8 vCPUs, 32 GiB", "europe-west4") in missing


def test_only_backends_of_others_charge_for_tokens() -> None:
    found = stack_cost(resolved())
    (line,) = [each for each in found.parts if each.what.startswith("Tokens of backends")]
    assert line.quantity.startswith("1")


def test_weights_are_stored_once_for_a_cluster_and_for_cloud_run() -> None:
    def shared(changed: dict[str, Any]) -> None:
        changed["models"]["llama-3.1-8b"]["weights"] = "llama-3.1-8b@1.0.0"

    def stored(plan: Plan) -> float:
        (line,) = [
            each for each in stack_cost(plan).parts if each.what == "weights in Cloud Storage"
        ]
        return float(line.quantity.split()[0])

    gib = {billion: billion * 2e9 / 2**30 for billion in (4.3, 8.03)}
    assert stored(resolved(shared)) == pytest.approx(sum(gib.values()), abs=0.1)


def test_weights_are_pushed_to_the_bucket_of_each_region_as_those_of_other_models() -> None:
    found = targets(resolved(second_region))
    assert list(found) == ["llama-3.1-8b", NAME, "llama-on-cloud-run/targets/1"]
    target = found[NAME]
    assert (target.folder, target.version) == (NAME, "1.0.0")
    buckets = [home.bucket for home in target.homes]
    assert buckets == [
        "acme-cloud-run-models-us-central1",
        "acme-cloud-run-models-europe-west4",
    ]


def quota(change: Callable[[dict[str, Any]], Any]) -> Need:
    found = [each for each in needs(resolved(change)) if "allocation" in each.metric.name]
    (one,) = found
    return one


def test_a_quota_of_cloud_run_covers_the_most_instances_of_all_services() -> None:
    need = quota(lambda _: None)
    assert need.metric.name == "nvidia_l4_gpu_allocation_no_zonal_redundancy"
    assert {part.who: part.amount for part in need.parts} == {
        "gemma-3-4b on Cloud Run": 2,
        "llama-on-cloud-run/targets/1 on Cloud Run": 1,
    }
    (standing,) = standings([need], lambda _: Limit(1))
    command = request(standing, "acme", "oncall@example.com").command
    assert "--service=run.googleapis.com" in command
    assert "--quota-id=NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion" in command
    assert "--preferred-value=3" in command


def test_a_larger_gpu_with_redundancy_has_another_quota() -> None:
    def larger(changed: dict[str, Any]) -> None:
        for backend, at in ((NAME, None), ("llama-on-cloud-run", 1)):
            target = changed["backends"][backend]
            target = target if at is None else target["targets"][at]
            target["deploy"] |= {"accelerator": "nvidia-rtx-pro-6000", "zonal_redundancy": True}

    need = quota(larger)
    assert need.metric.name == "nvidia_rtx_pro_6000_gpu_allocation"
    assert (need.amount, need.metric.unit) == (3000, "milliGPUs")


@pytest.mark.parametrize(
    ("where", "change", "message"),
    [
        (
            "deploy",
            {"weights": NAME},
            f"backends.{NAME}.deploy.weights must select a version, PATH@VERSION, got '{NAME}'",
        ),
        (
            "deploy",
            {"accelerator": "nvidia-h100-80gb"},
            f"backends.{NAME}.deploy.accelerator must be one of nvidia-l4, nvidia-rtx-pro-6000",
        ),
        (
            "deploy",
            {"size": {"parameters_billion": 32.0}},
            f"backends.{NAME}.deploy.accelerator must hold the model on one GPU: it needs",
        ),
        (
            "deploy",
            {"vcpus": 2},
            f"backends.{NAME}.deploy.vcpus must be one of 4, 6, 8 with nvidia-l4, got 2",
        ),
        (
            "deploy",
            {"min_instances": 3},
            f"backends.{NAME}.deploy.min_instances must be at most max_instances (2), got 3",
        ),
        (
            "deploy",
            {"concurrency": 1001},
            f"backends.{NAME}.deploy.concurrency must be 1 to 1000, got 1001",
        ),
        (
            "deploy",
            {"settings": {"tensor_parallel": 2}},
            f"backends.{NAME}.deploy.settings.tensor_parallel must not be set on Cloud Run",
        ),
        (
            "deploy",
            {"regions": ["us-east4"]},
            f"backends.{NAME}.deploy.regions must be one of us-central1, got 'us-east4'",
        ),
        (
            "deploy",
            {"context": 200_000},
            f"backends.{NAME}.deploy.context must be at most 131072 for {NAME}, got 200000",
        ),
        (
            None,
            {"timeout_seconds": 3601},
            f"backends.{NAME}.timeout_seconds must be 1 to 3600, got 3601",
        ),
        (
            None,
            {"url": "https://gemma.example.com"},
            f"backends.{NAME}.url must not be set together with 'deploy'",
        ),
        (
            None,
            {"kind": "openai"},
            f"backends.{NAME}.deploy must not be set when kind is openai",
        ),
    ],
)
def test_what_cloud_run_does_not_have_is_refused_in_one_message(
    where: str | None, change: dict[str, Any], message: str
) -> None:
    changed = document()
    target = changed["backends"][NAME]
    (target if where is None else target[where]).update(change)
    with pytest.raises(StackError) as refused:
        parse(json.dumps(changed))
    assert message in str(refused.value)
    assert len(refused.value.problems) == 1


def test_a_region_without_the_gpu_is_refused_unless_others_have_the_service() -> None:
    changed = document()
    second_region(changed)
    west = changed["regions"].pop("europe-west4")
    west["zones"] = ["us-west1-a", "us-west1-b"]
    changed["regions"]["us-west1"] = west
    with pytest.raises(StackError) as refused:
        parse(json.dumps(changed))
    rule = "accelerator must be a GPU that Cloud Run has in us-west1: nvidia-l4 is in"
    assert f"backends.{NAME}.deploy.{rule}" in str(refused.value)
    for target in (
        changed["backends"][NAME],
        changed["backends"]["llama-on-cloud-run"]["targets"][1],
    ):
        target["deploy"]["regions"] = ["us-central1"]
    assert resolve(parse(json.dumps(changed))).backends is not None


def test_a_name_that_is_too_long_for_a_service_is_refused() -> None:
    changed = document()
    long = "gemma-3-4b-of-the-people-who-write-at-night"[:40]
    changed["backends"][long] = changed["backends"].pop(NAME)
    changed["clients"]["prices"][long] = changed["clients"]["prices"].pop(NAME)
    changed["clients"]["teams"]["assistant"]["models"] = [long]
    with pytest.raises(StackError) as refused:
        parse(json.dumps(changed))
    assert f"backends.{long}.deploy gives its service or its account a name" in str(refused.value)
