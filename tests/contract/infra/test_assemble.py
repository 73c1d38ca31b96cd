"""Arguments that result from a stack, one named fact at a time."""

import json
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest

from gke_inference.catalogue.problems import join, suggest
from gke_inference.serving.settings import ScalingTargets
from infra.deploy import batch_engines
from infra.deploy import serving_arguments as assemble_models
from infra.deploy.built_region import BuiltRegion
from infra.deploy.capacity import image_cache_args
from infra.deploy.cluster import cluster_args
from infra.deploy.described import described, placements
from infra.deploy.exports import exports
from infra.deploy.program import deploy
from infra.deploy.region import bucket_args
from infra.plan import ServedModel, resolve
from infra.plan.capacity import rungs as rungs_of
from infra.plan.names import object_name, resolve_names
from infra.reading.load import parse, read
from infra.stack import Exposure, Gateway, Platform
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import CloudRecorder, Deployed
from tests.contract.infra.resolved import region_of, served_in

MODEL = "llama-3.1-8b"
BUCKETS = {"models": "m", "caches": "c"}
OWN = "acme-local-models-us-central1"


def buckets_of(platform: Platform, region: str) -> dict[str, Any]:
    """Return the arguments of the buckets of a region."""
    found = bucket_args(region_of(platform, region), platform.storage, platform.teams)
    return {**found}


def platform(base: str, *edits: tuple[list[str | int], Any]) -> Platform:
    """Return a stack of stacks/ with edits."""
    changed = edited(base, [{"at": at, "value": value} for at, value in edits])
    return parse(json.dumps(changed))


def test_weights_of_the_platform_are_read_in_the_region_of_the_replica() -> None:
    prod = read("prod")
    served = served_in(prod, MODEL, "europe-west4")
    assert served.weights == "gs://acme-prod-models-europe-west4/llama-3.1-8b"


def test_weights_of_a_bucket_that_exists_are_read_there() -> None:
    local = platform("local", (["models", MODEL, "weights"], "gs://acme-weights/llama/"))
    args: Any = assemble_models.server_args(served_in(local, MODEL, "us-central1"))
    assert args["weights"] == "gs://acme-weights/llama"
    assert args["adapters"]["sql"] == "gs://acme-weights/llama/adapters/sql"


def test_a_bucket_that_all_regions_share_is_granted_once_in_the_first_region_by_name() -> None:
    prod = platform("prod", (["models", MODEL, "weights"], "gs://acme-weights/llama"))
    args: Any = {
        region: assemble_models.identity_args(served_in(prod, MODEL, region), BUCKETS)
        for region in prod.regions
    }
    granted = {region: set(each["bucket_roles"]) for region, each in args.items()}
    assert granted == {
        "us-central1": {"caches"},
        "europe-west4": {"caches"},
        "asia-northeast1": {"weights", "caches"},
    }


def drafting(weights: str, draft: str) -> tuple[Platform, ServedModel]:
    """Return a stack with a draft model, and its only model."""
    guess = {"method": "draft", "tokens": 4, "weights": draft}
    local = platform(
        "local",
        (["models", MODEL, "weights"], weights),
        (["models", MODEL, "settings"], {"speculative": guess}),
        (["models", MODEL, "capacity"], "gpus"),
        (["models", MODEL, "form"], "single"),
        (["models", MODEL, "replicas"], {"min": 1, "max": 2}),
        (
            ["capacity", "gpus"],
            {"rungs": [{"accelerator": "nvidia-l4", "count": 1, "provisioning": "spot"}]},
        ),
    )
    return local, served_in(local, MODEL, "us-central1")


@pytest.mark.parametrize(
    ("weights", "draft", "read"),
    [
        ("llama-3.1-8b", "llama-3.2-1b", {"models": "m"}),
        ("llama-3.1-8b", "gs://acme-drafts/llama", {"models": "m", "draft": "acme-drafts"}),
        ("gs://acme-weights/llama", "llama-3.2-1b", {"weights": "acme-weights", "models": "m"}),
        ("gs://acme-weights/llama", "gs://acme-weights/1b", {"weights": "acme-weights"}),
        (f"gs://{OWN}/llama", "llama-3.2-1b", {"weights": OWN}),
        ("llama-3.1-8b", f"gs://{OWN}/1b", {"models": "m"}),
    ],
)
def test_a_model_reads_the_bucket_of_its_draft_model_too(
    weights: str, draft: str, read: dict[str, str]
) -> None:
    _, served = drafting(weights, draft)
    args: Any = assemble_models.identity_args(served, BUCKETS)
    found = {title: each["bucket"] for title, each in args["bucket_roles"].items()}
    assert found == {**read, "caches": "c"}


def test_a_draft_model_renames_no_grant_of_a_job_for_the_weights() -> None:
    _, served = drafting("gs://acme-weights/llama", "llama-3.2-1b")
    args: Any = batch_engines.identity_args(served, BUCKETS, "b")
    found = {title: each["bucket"] for title, each in args["bucket_roles"].items()}
    assert found == {"batches": "b", "caches": "c", "draft": "m", "models": "acme-weights"}


def test_a_model_writes_compiled_programs_and_nothing_else() -> None:
    prod = read("prod")
    served = served_in(prod, "llama-3.3-70b", "us-central1")
    args: Any = assemble_models.identity_args(served, BUCKETS)
    assert args["bucket_roles"] == {
        "models": {"access": "read", "bucket": "m"},
        "caches": {"access": "write", "bucket": "c"},
    }


def test_a_region_without_a_tpu_has_a_bucket_for_compiled_programs_too() -> None:
    local = platform(
        "local",
        (
            ["capacity", "interactive", "rungs"],
            [{"accelerator": "nvidia-l4", "count": 1, "provisioning": "spot"}],
        ),
        (["models", MODEL, "replicas"], {"min": 1, "max": 2}),
        (["models", MODEL, "form"], "single"),
    )
    assert set(buckets_of(local, "us-central1")) == {
        "caches",
        "models",
    }


def test_versions_and_real_folders_exclude_each_other() -> None:
    def models(stack: str, region: str) -> Any:
        found = read(stack)
        return buckets_of(found, region)["models"]

    staging, prod = models("staging", "us-central1"), models("prod", "us-central1")
    assert (staging["versioning"], staging["folders"]) == (True, False)
    assert (prod["versioning"], prod["folders"]) == (False, True)


def test_a_reservation_is_asked_for_in_the_zones_of_the_region_only() -> None:
    capacity = region_of(read("prod"), "europe-west4").capacity["interactive"]
    rungs: Any = rungs_of(capacity, "tpu")
    assert [rung.reservation_zones for rung in rungs] == [("europe-west4-a",)]


def test_a_capacity_of_one_kind_keeps_its_name() -> None:
    capacity = region_of(read("prod"), "us-central1").capacity
    assert capacity["heavy"].classes == {"gpu": "heavy"}
    assert capacity["large"].classes == {"tpu": "large-tpu", "gpu": "large-gpu"}


def test_what_a_stack_says_of_a_cluster_reaches_it() -> None:
    local = platform(
        "local",
        (["regions", "us-central1", "authorized_networks"], {"office": "192.0.2.0/24"}),
        (
            ["regions", "us-central1", "kms_key"],
            "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k",
        ),
        (["regions", "us-central1", "auto_provisioning_limits"], {"cpu": 64}),
        (
            ["regions", "us-central1", "maintenance"],
            {"days": ["SA", "SU"], "start_hour": 3, "hours": 6},
        ),
    )
    args: Any = cluster_args(
        region_of(local, "us-central1"),
        network="n",
        subnetwork="s",
        pods_range="p",
        services_range="v",
    )
    assert args["authorized_networks"] == {"office": "192.0.2.0/24"}
    assert args["auto_provisioning_limits"] == {"cpu": 64}
    assert args["kms_key"].endswith("/k")
    assert args["maintenance"].model_dump(mode="json") == {
        "days": ["SA", "SU"],
        "hours": 6,
        "start_hour": 3,
    }
    assert args["system_pool"].machine_type == "e2-standard-4"
    assert args["deletion_protection"] is False


def test_an_image_that_is_made_has_an_archive_and_one_that_exists_a_project() -> None:
    made = platform(
        "local",
        (
            ["storage"],
            {"image_cache": {"name": "engines", "archive": "gs://acme-images/engines.tar.gz"}},
        ),
    )
    assert image_cache_args(resolve(made).storage.image_cache) == {
        "image_name": "engines",
        "project": "acme-inference-local",
        "raw_disk": "gs://acme-images/engines.tar.gz",
    }
    assert image_cache_args(resolve(read("prod")).storage.image_cache) == {
        "image_name": "acme-engines",
        "project": "acme-images",
    }
    assert image_cache_args(resolve(read("local")).storage.image_cache) is None


def test_the_other_half_of_a_pair_fills_what_the_first_cannot_get() -> None:
    args = scaling("prod")
    tpu, gpu = args["llama-3-1-8b-tpu"], args["llama-3-1-8b-gpu"]
    assert (tpu["replicas"].min, tpu.get("standby"), gpu.get("standby")) == (2, None, 1)


def test_what_replicas_follow_is_said_in_the_stack() -> None:
    made = scaling("local")["llama-3-1-8b-tpu"]
    assert made["targets"] == ScalingTargets(running_requests=8)
    assert (made["scale_in_delay_seconds"], made["scale_in_every_seconds"]) == (5, 5)
    assert "running_requests" not in scaling("prod")["llama-3-1-8b-tpu"]


def scaling(stack: str) -> Any:
    """Return the arguments of the autoscalers of a model, by the name of what each one scales."""
    region = region_of(read(stack), "us-central1")
    return assemble_models.scaling_args(region, served_in(read(stack), MODEL, "us-central1"))


@pytest.mark.parametrize(
    ("gateway", "url"),
    [
        (Gateway(exposure=Exposure.EXTERNAL, port=8080), "http://192.0.2.1:8080"),
        (Gateway(exposure=Exposure.INTERNAL), "http://192.0.2.1"),
        (
            Gateway(exposure=Exposure.EXTERNAL, hostname="m.example.com", certificate="c"),
            "https://m.example.com",
        ),
        (
            Gateway(
                exposure=Exposure.EXTERNAL, hostname="m.example.com", certificate="c", port=8443
            ),
            "https://m.example.com:8443",
        ),
    ],
)
def test_the_endpoint_is_the_url_a_client_takes(gateway: Gateway, url: str) -> None:
    assert gateway.endpoint("192.0.2.1") == url


def test_every_region_says_its_address_for_whoever_writes_the_dns(cloud: CloudRecorder) -> None:
    def addresses() -> pulumi.Output[Any]:
        gateway: Any = SimpleNamespace(address=pulumi.Output.from_input("192.0.2.1"))
        cluster: Any = SimpleNamespace(endpoint="e", location="l", cluster_name="c")
        built = {
            "us-central1": BuiltRegion(cluster, gateway),
            "europe-west4": BuiltRegion(cluster, None),
        }
        return pulumi.Output.from_input(exports(resolve(read("prod")), built)["addresses"])

    assert cloud.run(addresses) == {"us-central1": "192.0.2.1"}


def test_placements_list_the_rungs_in_order_with_the_price_of_a_replica() -> None:
    found = placements(resolve(read("local")).models[MODEL])["us-central1"]
    assert [place["rung"] for place in found] == [
        "tpu-v6e 2x2 reservation",
        "nvidia-l4 x1 on-demand",
        "nvidia-l4 x1 spot",
    ]
    assert all(place["usd_per_hour"] > 0 for place in found)
    assert all(place["price"] for place in found)


def test_a_rung_without_a_published_price_shows_none() -> None:
    heavy = placements(resolve(read("prod")).models["llama-3.3-70b"])["us-central1"]
    assert all("usd_per_hour" not in place or place["usd_per_hour"] > 0 for place in heavy)
    assert len(heavy) == 3


def test_a_model_is_described_by_what_a_caller_must_know() -> None:
    facts = described(resolve(read("dev")), "qwen3-embedding-0.6b")
    assert facts["task"] == "embed"
    assert facts["form"] == "single"
    assert facts["regions"] == ["us-central1"]


def test_names_begin_with_prefix_and_environment() -> None:
    names = resolve_names(read("prod"))
    assert names.cluster("us-central1") == "acme-prod-us-central1"
    assert names.bucket("models", "us-central1") == "acme-prod-models-us-central1"
    assert object_name("llama-3.1_8b") == "llama-3-1-8b"


def test_paths_read_like_the_stack_file() -> None:
    assert join("capacity", "chat", "rungs", 0, "topology") == "capacity.chat.rungs[0].topology"


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("nvidia-h100", ["nvidia-b200", "nvidia-h100-80gb"], "; did you mean 'nvidia-h100-80gb'?"),
        ("regoins", ["regions"], "; did you mean 'regions'?"),
        ("zebra", ["regions"], ""),
    ],
)
def test_a_word_that_is_nearly_right_gets_the_right_one(
    word: str, known: list[str], hint: str
) -> None:
    assert suggest(word, known) == hint


DATA_KEY = "projects/acme-keys/locations/us-central1/keyRings/r/cryptoKeys/data"


def test_everything_a_region_keeps_is_encrypted_with_its_key(cloud: CloudRecorder) -> None:
    keyed = platform(
        "local",
        (["regions", "us-central1", "data_key"], DATA_KEY),
        (["images"], {"repository": "engines"}),
        (
            ["models", MODEL, "disk"],
            {
                "size_gib": 40,
                "snapshot": "llama",
                "throughput_mib_per_second": 1200,
                "zones": ["us-central1-b"],
            },
        ),
    )
    cloud.run(lambda: deploy(keyed))
    buckets = cloud.all("gcp:storage/bucket:Bucket")
    assert {seen.inputs["encryption"]["defaultKmsKeyName"] for seen in buckets} == {DATA_KEY}
    repository = cloud.one("gcp:artifactregistry/repository:Repository").inputs
    assert repository["kmsKeyName"] == DATA_KEY
    disk = cloud.one("gcp:compute/disk:Disk").inputs
    assert disk["diskEncryptionKey"] == {"kmsKeySelfLink": DATA_KEY}
    system = cloud.one("gcp:container/nodePool:NodePool").inputs
    assert system["nodeConfig"]["bootDiskKmsKey"] == DATA_KEY
    classes = cloud.all("kubernetes:cloud.google.com/v1:ComputeClass")
    rules = [rule for seen in classes for rule in seen.inputs["spec"]["priorities"]]
    assert {rule["storage"]["bootDiskKMSKey"] for rule in rules} == {DATA_KEY}


def test_nodes_boot_from_the_disks_that_the_stack_names(cloud: CloudRecorder) -> None:
    named = platform(
        "dev",
        (["capacity", "small", "rungs", 0, "boot_disk_type"], "pd-ssd"),
        (["capacity", "either-chip", "rungs", 0, "boot_disk_type"], "hyperdisk-balanced"),
        (["regions", "us-central1", "system_pool", "boot_disk_type"], "pd-ssd"),
    )
    cloud.run(lambda: deploy(named))
    pools = {
        seen.inputs["name"]: seen.inputs["nodeConfig"].get("diskType")
        for seen in cloud.all("gcp:container/nodePool:NodePool")
    }
    assert pools == {
        "either-chip-0": "hyperdisk-balanced",
        "either-chip-1": None,
        "system": "pd-ssd",
    }
    classes = {
        name: found["spec"]["priorities"]
        for name, found in cloud.objects("kubernetes:cloud.google.com/v1:ComputeClass").items()
    }
    first, second = classes["small"]
    assert first["storage"] == {"bootDiskType": "pd-ssd"}
    assert second["storage"] == {"bootDiskType": "pd-balanced"}
    cluster = cloud.one("gcp:container/cluster:Cluster").inputs
    defaults = cluster["clusterAutoscaling"]["autoProvisioningDefaults"]
    assert defaults["diskType"] == "pd-balanced", "G2 boots from no pd-standard"


def test_pools_are_upgraded_as_the_stack_says(cloud: CloudRecorder) -> None:
    pools = {"max_nodes": 2, "max_surge": 1, "max_unavailable": 0}
    cloud.run(lambda: deploy(platform("dev", (["capacity", "either-chip", "node_pools"], pools))))
    for seen in cloud.all("gcp:container/nodePool:NodePool"):
        wanted = (1, 0)
        settings = seen.inputs["upgradeSettings"]
        assert (settings["maxSurge"], settings["maxUnavailable"]) == wanted


def test_the_network_has_the_packets_that_the_stack_asks_for(cloud: CloudRecorder) -> None:
    cloud.run(lambda: deploy(platform("local", (["mtu"], 8896))))
    assert cloud.one("gcp:compute/network:Network").inputs["mtu"] == 8896


def test_a_protected_stack_has_spare_pickers_and_routers(deployed: Deployed) -> None:
    replicas = {
        seen.inputs["metadata"]["labels"]["app.kubernetes.io/component"]: seen.inputs["spec"][
            "replicas"
        ]
        for seen in deployed(read("prod")).all("kubernetes:apps/v1:Deployment")
    }
    assert (replicas["endpoint-picker"], replicas["body-router"]) == (2, 3)
