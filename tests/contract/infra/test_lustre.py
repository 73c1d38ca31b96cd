"""Live adapters and KV cache on Managed Lustre: what a stack makes of them."""

import json
from typing import Any

from infra.bootstrap.ci import deploy_roles
from infra.deploy.folders import lustre_folder_args
from infra.deploy.program import deploy
from infra.plan import gke_version, resolve
from infra.plan.gke_version import needed
from infra.reading.load import parse, read
from infra.stack import Platform
from scripts.bootstrap.command import settings_of
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import CloudRecorder

MODEL = "llama-3.1-8b"
INSTANCE = "gcp:lustre/instance:Instance"
L4 = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}
LUSTRE = {"capacity_gib": 9000, "services_range": "10.64.0.0/20"}


def stack(**changes: Any) -> Platform:
    """Return the local stack with a folder on Managed Lustre."""
    lustre = {**LUSTRE, **changes}
    edits = [
        {"at": ["models", MODEL, "adapters"], "value": []},
        {"at": ["models", MODEL, "live_adapters"], "value": {"place": "lustre", "max_rank": 32}},
        {"at": ["storage"], "value": {"lustre": lustre}},
        {"at": ["capacity", "interactive", "rungs"], "value": [L4]},
        {"at": ["models", MODEL, "form"], "remove": True},
        {"at": ["models", MODEL, "replicas"], "value": {"min": 1, "max": 4}},
    ]
    return parse(json.dumps(edited("local", edits)))


def deployed(cloud: CloudRecorder, platform: Platform) -> CloudRecorder:
    cloud.outputs[INSTANCE] = {"mountPoint": "10.64.0.2@tcp:/shared"}
    cloud.run(lambda: deploy(platform))
    return cloud


def test_engines_read_adapters_from_the_folder_of_their_model(cloud: CloudRecorder) -> None:
    seen = deployed(cloud, stack())
    pods = [
        each.inputs["spec"]["template"]["spec"]
        for each in seen.all("kubernetes:apps/v1:Deployment")
    ]
    claims = [
        volume["persistentVolumeClaim"]
        for pod in pods
        for volume in pod.get("volumes", [])
        if volume["name"] == "live-adapters"
    ]
    assert claims == [{"claimName": "shared-folder", "readOnly": True}]


def stack_with_kv_cache() -> Platform:
    """Return the example of KV cache tiers with its shared tier on Managed Lustre."""
    tier = {"place": "lustre", "gib": 8100}
    edits = [
        {"at": ["models", MODEL, "settings", "kv_offload", "shared"], "value": tier},
        {"at": ["storage"], "value": {"lustre": LUSTRE}},
    ]
    return parse(json.dumps(edited("kv-offload/kv-offload", edits)))


def test_kv_cache_alone_makes_an_instance_that_every_engine_mounts(cloud: CloudRecorder) -> None:
    seen = deployed(cloud, stack_with_kv_cache())
    assert seen.one(INSTANCE).inputs["capacityGib"] == "9000"
    (pod,) = [
        pod
        for each in seen.all("kubernetes:apps/v1:Deployment")
        if (pod := each.inputs["spec"]["template"]["spec"])["containers"][0]["name"] == "vllm"
    ]
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["kv-shared"]["persistentVolumeClaim"] == {"claimName": "shared-folder"}
    # the driver gives the top folder to this group
    assert pod["securityContext"]["fsGroup"] == 1000
    assert seen.all("gcp:filestore/instance:Instance") == []


def test_the_instance_is_reached_through_a_peering_of_the_network(cloud: CloudRecorder) -> None:
    seen = deployed(cloud, stack())
    instance = seen.one(INSTANCE).inputs
    assert instance["instanceId"] == "acme-local-lustre-us-central1"
    assert instance["location"] == read("local").regions["us-central1"].zones[0]
    assert instance["perUnitStorageThroughput"] == "1000"
    assert seen.one("gcp:servicenetworking/connection:Connection")
    cluster = seen.one("gcp:container/cluster:Cluster").inputs
    assert cluster["addonsConfig"]["lustreCsiDriverConfig"] == {"enabled": True}
    assert "gcpFilestoreCsiDriverConfig" not in cluster["addonsConfig"]


def test_a_key_of_the_region_encrypts_the_instance() -> None:
    key = "projects/acme/locations/us-central1/keyRings/r/cryptoKeys/k"
    given = json.loads(stack().model_dump_json(exclude_unset=True))
    given["regions"]["us-central1"]["data_key"] = key
    platform = parse(json.dumps(given))
    args = lustre_folder_args(resolve(platform).regions["us-central1"], "network")
    assert args is not None
    assert args.get("kms_key") == key


def test_only_such_a_stack_needs_the_apis_the_roles_and_the_version() -> None:
    apis = {"lustre.googleapis.com", "servicenetworking.googleapis.com"}
    roles = {"roles/lustre.admin", "roles/servicenetworking.networksAdmin"}
    for platform, has in ((stack(), True), (read("local"), False)):
        assert (apis <= set(resolve(platform).project.services)) is has
        settings = settings_of(resolve(platform), "local", None, None)
        assert (roles <= set(deploy_roles(settings))) is has
    least, _ = needed(resolve(stack()).regions["us-central1"])
    assert least >= "1.33.2"


def test_kv_cache_needs_the_gke_version_of_the_lustre_driver(monkeypatch) -> None:
    def minimum(feature: str) -> str:
        return "1.99.0" if feature == "lustre" else "1.30.0"

    (region,) = resolve(stack_with_kv_cache()).regions.values()
    monkeypatch.setattr(gke_version, "gke_minimum", minimum)
    assert needed(region) == ("1.99.0", f"KV cache of {MODEL} on Managed Lustre")


def test_a_folder_stays_in_its_zone_when_the_order_of_zones_changes() -> None:
    platform = stack()
    region = platform.regions["us-central1"]
    kept = region.model_copy(
        update={"folder_zone": region.zones[0], "zones": tuple(reversed(region.zones))}
    )
    moved = platform.model_copy(update={"regions": {"us-central1": kept}})
    args = lustre_folder_args(resolve(moved).regions["us-central1"], "network")
    assert args is not None
    assert args["location"] == "us-central1-a"
    assert args == lustre_folder_args(resolve(platform).regions["us-central1"], "network")
