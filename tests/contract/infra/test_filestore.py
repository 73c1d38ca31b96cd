"""Live adapters on Filestore: what a stack makes of them."""

import json
from operator import itemgetter
from typing import Any

import pytest

from infra.plan import resolve
from infra.plan.storage import tiers_of
from infra.reading.load import parse, read
from infra.stack import Platform
from infra.stack.problems import StackError
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import Deployed

MODEL, TIERED = "llama-3.1-8b", "kv-offload/kv-offload"


def stack(**changes: Any) -> Platform:
    """Return the local stack with a folder on Filestore."""
    live = {"place": "filestore", "max_rank": 32}
    edits = [
        {"at": ["models", MODEL, "adapters"], "value": []},
        {"at": ["models", MODEL, "live_adapters"], "value": live},
        {"at": ["storage"], "value": {"filestore": {"capacity_gib": 1024, **changes}}},
    ]
    return parse(json.dumps(edited("local", edits)))


def test_engines_read_adapters_from_the_folder_of_their_model(deployed: Deployed) -> None:
    seen = deployed(stack())
    deployments = seen.all("kubernetes:apps/v1:Deployment")
    pods = [each.inputs["spec"]["template"]["spec"] for each in deployments]
    name = itemgetter("name")
    servers = [pod for pod in pods if "adapter-loader" in map(name, pod["containers"])]
    assert len(servers) == 2  # on TPU and on GPU
    for pod in servers:
        volumes = {each["name"]: each for each in pod["volumes"]}
        assert volumes["live-adapters"]["persistentVolumeClaim"] == {
            "claimName": "shared-folder",
            "readOnly": True,
        }
        (loader,) = [each for each in pod["containers"] if each["name"] == "adapter-loader"]
        environment = {each["name"]: each.get("value") for each in loader["env"]}
        folder = "/mnt/live-adapters/llama-3-1-8b/live-adapters"
        assert environment["ADAPTERS_FOLDER"] == folder


def test_each_region_has_an_instance_in_its_first_zone_and_a_cluster_with_the_driver(
    deployed: Deployed,
) -> None:
    seen = deployed(stack())
    instance = seen.one("gcp:filestore/instance:Instance").inputs
    assert instance["name"] == "acme-local-shared-us-central1"
    assert instance["location"] == read("local").regions["us-central1"].zones[0]
    cluster = seen.one("gcp:container/cluster:Cluster").inputs
    assert cluster["addonsConfig"]["gcpFilestoreCsiDriverConfig"] == {"enabled": True}


def test_a_regional_instance_is_in_the_region(deployed: Deployed) -> None:
    seen = deployed(stack(tier="regional"))
    assert seen.one("gcp:filestore/instance:Instance").inputs["location"] == "us-central1"


def test_only_such_a_stack_needs_the_api() -> None:
    assert "file.googleapis.com" in resolve(stack()).project.services
    assert "file.googleapis.com" not in resolve(read("local")).project.services


def test_metrics_of_kv_cache_tiers_are_stored_and_shown(deployed: Deployed) -> None:
    seen = deployed(parse(json.dumps(edited(TIERED, []))))
    scrapes = seen.all("kubernetes:monitoring.googleapis.com/v1:PodMonitoring")
    (kept,) = [
        rule["regex"]
        for each in scrapes
        for endpoint in each.inputs["spec"]["endpoints"]
        for rule in endpoint.get("metricRelabeling", [])
        if "vllm:" in rule["regex"]
    ]
    assert "vllm:prompt_tokens_cached_by_source_total" in kept.split("|")
    pages = [
        each.inputs["dashboardJson"] for each in seen.all("gcp:monitoring/dashboard:Dashboard")
    ]
    assert sum("KV cache tiers" in page for page in pages) == 1


def test_kv_cache_on_filestore_mounts_the_share_in_every_engine(deployed: Deployed) -> None:
    seen = deployed(parse(json.dumps(edited(TIERED, []))))
    deployments = seen.all("kubernetes:apps/v1:Deployment")
    pods = [each.inputs["spec"]["template"]["spec"] for each in deployments]
    (pod,) = [each for each in pods if each["containers"][0]["name"] == "vllm"]
    claims = [each.get("persistentVolumeClaim") for each in pod["volumes"]]
    assert {"claimName": "shared-folder"} in claims
    (flag,) = [arg for arg in pod["containers"][0]["args"] if "kv-transfer-config" in arg]
    assert '"root_dir":"/mnt/kv-shared/llama-3-1-8b/kv-cache/' in flag
    assert seen.one("gcp:filestore/instance:Instance").inputs["fileShares"]["capacityGb"] == 10_240


CANARY = {"version": "v2", "weights": "llama-3.1-8b-v2", "percent": 10}


@pytest.mark.parametrize(
    ("canary", "problem"),
    [
        (
            CANARY,
            "models.llama-3.1-8b.canary.settings.kv_offload.shared.gib must be at most 9216 with "
            "all others on the share, got 9000: 18000 together, on 10240 GiB; the canary has the "
            "model's settings and a folder of its own",
        ),
        (
            {
                **CANARY,
                "settings": {
                    "kv_offload": {"cpu_gib": 12, "shared": {"place": "filestore", "gib": 300}}
                },
            },
            "models.llama-3.1-8b.canary.settings.kv_offload.shared.gib must be at most 9216 with "
            "all others on the share, got 300: 9300 together, on 10240 GiB",
        ),
    ],
)
def test_the_tier_of_a_canary_counts(canary: dict[str, Any], problem: str) -> None:
    with pytest.raises(StackError) as refused:
        parse(json.dumps(edited(TIERED, [{"at": ["models", MODEL, "canary"], "value": canary}])))
    assert [each.sentence() for each in refused.value.problems] == [problem]


def test_a_canary_of_another_engine_has_no_tier() -> None:
    canary = {**CANARY, "engine": "sglang"}
    rungs = ["capacity", "interactive", "rungs"]
    larger = [{"at": [*rungs, rung, "machine_type"], "value": "g2-standard-16"} for rung in (0, 1)]
    edits = [{"at": ["models", MODEL, "canary"], "value": canary}, *larger]
    platform = parse(json.dumps(edited(TIERED, edits)))
    assert list(tiers_of(platform.models[MODEL])) == ["settings"]


TRAINING = {
    "flavors": [{"capacity": "training", "chips": 4}],
    "teams": {"images": {"shared_folder": True}, "evals": {}},
}
SPOT = {"accelerator": "tpu-v6e", "topology": "1x1", "provisioning": "spot"}


def with_queue(*edits: dict[str, Any]) -> Platform:
    """Return the local stack with a folder on Filestore and a queue with two teams."""
    given = json.loads(stack().model_dump_json(exclude_unset=True))
    given["capacity"]["training"] = {"rungs": [SPOT]}
    given["queues"] = {"training": TRAINING}
    for edit in edits:
        given |= edit
    return parse(json.dumps(given))


def test_jobs_of_a_team_have_a_claim_on_the_folder_where_the_queue_says_so(
    deployed: Deployed,
) -> None:
    seen = deployed(with_queue())
    claims = seen.all("kubernetes:core/v1:PersistentVolumeClaim")
    volumes = {
        name: found["spec"]
        for name, found in seen.objects("kubernetes:core/v1:PersistentVolume").items()
    }
    found = {
        each.inputs["metadata"]["namespace"]: volumes[each.inputs["spec"]["volumeName"]]
        for each in claims
        if each.inputs["metadata"]["name"] == "shared-folder"
    }
    assert sorted(found) == ["jobs-images", "models"]
    for namespace, volume in found.items():
        assert volume["claimRef"] == {"name": "shared-folder", "namespace": namespace}
        assert volume["csi"]["volumeAttributes"] == {"ip": "10.9.0.2", "volume": "shared"}
    handles = {volume["csi"]["volumeHandle"] for volume in found.values()}
    assert len(handles) == 1


def test_a_shared_folder_that_no_model_has_is_refused() -> None:
    models = json.loads(with_queue().model_dump_json(exclude_unset=True))["models"]
    models[MODEL]["live_adapters"] = {"max_rank": 32}
    with pytest.raises(StackError) as refused:
        with_queue({"models": models, "storage": {}})
    assert [problem.sentence() for problem in refused.value.problems] == [
        "queues.training.teams.images.shared_folder needs a model in us-central1 with "
        "live_adapters.place filestore or lustre, got none"
    ]


def test_one_team_of_a_region_can_have_the_folder() -> None:
    teams = {"images": {"shared_folder": True}, "evals": {"shared_folder": True}}
    with pytest.raises(StackError) as refused:
        with_queue({"queues": {"training": {**TRAINING, "teams": teams}}})
    assert [problem.sentence() for problem in refused.value.problems] == [
        "queues.training.teams.evals.shared_folder must be false: "
        "queues.training.teams.images.shared_folder is true, and one team of a region can have "
        "the folder, got true"
    ]


def test_a_team_in_two_queues_has_the_folder_in_both() -> None:
    flavor = {"capacity": "more", "chips": 4}
    platform = with_queue()
    given = json.loads(platform.model_dump_json(exclude_unset=True))
    given["capacity"]["more"] = {"rungs": [SPOT]}
    given["queues"]["second"] = {
        "flavors": [flavor],
        "teams": {"images": {"shared_folder": True}},
    }
    assert sorted(parse(json.dumps(given)).queues) == ["second", "training"]
