"""Live adapters on Filestore: what a stack makes of them."""

import json
from operator import itemgetter
from typing import Any

from infra.program import deploy
from infra.project import services_of
from infra.reading.load import parse, read
from infra.stack import Platform
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import CloudRecorder

MODEL = "llama-3.1-8b"


def stack(**changes: Any) -> Platform:
    """Return the local stack with a folder on Filestore."""
    live = {"place": "filestore", "max_rank": 32}
    edits = [
        {"at": ["models", MODEL, "adapters"], "value": []},
        {"at": ["models", MODEL, "live_adapters"], "value": live},
        {"at": ["storage"], "value": {"filestore": {"capacity_gib": 1024, **changes}}},
    ]
    return parse(json.dumps(edited("local", edits)))


def deployed(cloud: CloudRecorder, platform: Platform) -> CloudRecorder:
    cloud.outputs["gcp:filestore/instance:Instance"] = {
        "networks": [{"ipAddresses": ["10.9.0.2"], "modes": []}]
    }
    cloud.run(lambda: deploy(platform))
    return cloud


def test_engines_read_adapters_from_the_folder_of_their_model(cloud: CloudRecorder) -> None:
    seen = deployed(cloud, stack())
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
    cloud: CloudRecorder,
) -> None:
    seen = deployed(cloud, stack())
    instance = seen.one("gcp:filestore/instance:Instance").inputs
    assert instance["name"] == "acme-local-shared-us-central1"
    assert instance["location"] == read("local").regions["us-central1"].zones[0]
    cluster = seen.one("gcp:container/cluster:Cluster").inputs
    assert cluster["addonsConfig"]["gcpFilestoreCsiDriverConfig"] == {"enabled": True}


def test_a_regional_instance_is_in_the_region(cloud: CloudRecorder) -> None:
    seen = deployed(cloud, stack(tier="regional"))
    assert seen.one("gcp:filestore/instance:Instance").inputs["location"] == "us-central1"


def test_only_such_a_stack_needs_the_api() -> None:
    assert "file.googleapis.com" in services_of(stack())
    assert "file.googleapis.com" not in services_of(read("local"))
