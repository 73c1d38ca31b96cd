from typing import Any

import pulumi
import pulumi_kubernetes
import pytest

from gke_inference import FuseVolume, ModelBucket, ModelDisk, NodeImageCache
from gke_inference.catalogue.fuse import cache_volume, fuse_volume, mount_options, pod_annotations

BUCKET = "gcp:storage/bucket:Bucket"
DISK = "gcp:compute/disk:Disk"
IMAGE = "gcp:compute/image:Image"
VOLUME = "kubernetes:core/v1:PersistentVolume"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
BUCKET_ARGS = {"bucket_name": "acme-weights", "location": "us-east5", "project": "acme"}
DISK_ARGS = {
    "claim_name": "llama",
    "disk_name": "acme-llama",
    "namespace": "serving",
    "project": "acme",
    "size_gib": 200,
    "snapshot": "projects/acme/global/snapshots/llama",
    "throughput_mib_per_s": 2400,
    "zones": ["us-east5-a"],
}


NAMES = {ModelBucket: "weights", ModelDisk: "llama", FuseVolume: "weights", NodeImageCache: "vllm"}


def made(component: Any, args: Any, opts: pulumi.ResourceOptions | None = None) -> Any:
    return component(NAMES[component], args, opts)


def bucket(recorder, **change):
    def program():
        built = made(ModelBucket, {**BUCKET_ARGS, **change})
        return pulumi.Output.all(built.bucket_name, built.url)

    return recorder.run(program)


def disk(recorder, **change):
    def program():
        built = made(ModelDisk, {**DISK_ARGS, **change})
        return pulumi.Output.all(built.disk_name, built.claim_name)

    return recorder.run(program)


def refused(path, words, action):
    with pytest.raises(pulumi.InputPropertyError) as error:
        action()
    assert error.value.property_path == path
    assert words in error.value.reason


def test_a_bucket_is_closed_has_folders_and_forgives_a_delete_for_a_week(recorder):
    assert bucket(recorder) == ["acme-weights", "gs://acme-weights"]
    made = recorder.one(BUCKET)
    assert made.name == "weights"
    assert made.inputs == {
        "forceDestroy": False,
        "hierarchicalNamespace": {"enabled": True},
        "labels": {"component": "storage", "managed-by": "gke-inference"},
        "lifecycleRules": [
            {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 7}}
        ],
        "location": "US-EAST5",
        "name": "acme-weights",
        "project": "acme",
        "publicAccessPrevention": "enforced",
        "softDeletePolicy": {"retentionDurationSeconds": 604_800},
        "uniformBucketLevelAccess": True,
    }


def test_a_bucket_without_folders_can_keep_versions_and_forgets_them_after_a_month(recorder):
    bucket(recorder, folders=False, versioning=True)
    inputs = recorder.one(BUCKET).inputs
    assert "hierarchicalNamespace" not in inputs
    assert inputs["versioning"] == {"enabled": True}
    assert inputs["lifecycleRules"][1] == {
        "action": {"type": "Delete"},
        "condition": {"daysSinceNoncurrentTime": 30},
    }


def test_soft_delete_can_be_off(recorder):
    bucket(recorder, soft_delete_days=0.0)
    policy = recorder.one(BUCKET).inputs["softDeletePolicy"]
    assert policy == {"retentionDurationSeconds": 0}


def test_a_cache_is_made_in_each_zone_that_reads(recorder):
    bucket(recorder, cache_zones=["us-east5-b", "us-east5-a"], cache_days=2)
    caches = recorder.all("gcp:storage/anywhereCache:AnywhereCache")
    assert sorted(cache.name for cache in caches) == [
        "weights-cache-us-east5-a",
        "weights-cache-us-east5-b",
    ]
    assert caches[0].inputs["ttl"] == "172800s"
    assert caches[0].inputs["bucket"] == "acme-weights"
    assert "ingestOnWrite" not in caches[0].inputs


def test_a_cache_can_take_what_is_written(recorder):
    bucket(recorder, cache_zones=["us-east5-b"], cache_on_write=True)
    (cache,) = recorder.all("gcp:storage/anywhereCache:AnywhereCache")
    assert cache.inputs["ingestOnWrite"] is True


def test_a_key_encrypts_the_objects(recorder):
    bucket(recorder, kms_key="projects/acme/locations/us-east5/keyRings/r/cryptoKeys/k")
    assert "defaultKmsKeyName" in recorder.one(BUCKET).inputs["encryption"]


BUCKET_REFUSES = {
    "soft delete of three days": ({"soft_delete_days": 3}, "softDeleteDays", "0 or 7 to 90, got 3"),
    "soft delete of a year": ({"soft_delete_days": 365}, "softDeleteDays", "0 to 90, got 365"),
    "versions with folders": ({"versioning": True}, "versioning", "set 'folders: false'"),
    "a name with a capital": ({"bucket_name": "Acme-weights"}, "bucketName", "lowercase"),
    "a name that is too short": ({"bucket_name": "w"}, "bucketName", "3 to 63 characters"),
    "a cache in another region": (
        {"cache_zones": ["us-east4-a"]},
        "cacheZones",
        "must be zones of us-east5, got 'us-east4-a'",
    ),
    "a cache twice": (
        {"cache_zones": ["us-east5-a", "us-east5-a"]},
        "cacheZones",
        "must be different zones",
    ),
    "a cache for a month": ({"cache_days": 30}, "cacheDays", "must be 1 to 7, got 30"),
}


@pytest.mark.parametrize(("change", "path", "words"), BUCKET_REFUSES.values(), ids=BUCKET_REFUSES)
def test_a_broken_rule_of_a_bucket_is_refused(recorder, change, path, words):
    refused(path, words, lambda: bucket(recorder, **change))
    assert recorder.all(BUCKET) == []


def test_weights_are_mounted_with_caches_that_never_go_stale():
    options = mount_options(folder="/llama/")
    assert "file-cache:enable-parallel-downloads:true" in options
    assert "metadata-cache:ttl-secs:-1" in options
    assert options[-1] == "only-dir:llama"


def test_what_pods_write_is_not_cached_for_good():
    assert mount_options(is_read_only=False) == ["implicit-dirs"]


def test_a_pod_can_mount_a_bucket_without_a_claim():
    volume = fuse_volume("weights", "acme-weights")
    assert volume["csi"]["driver"] == "gcsfuse.csi.storage.gke.io"
    assert volume["csi"]["readOnly"] is True
    assert volume["csi"]["volumeAttributes"]["bucketName"] == "acme-weights"
    assert pod_annotations()["gke-gcsfuse/volumes"] == "true"


def test_the_file_cache_is_memory_or_the_disk_of_the_node():
    assert cache_volume(20) == {
        "emptyDir": {"medium": "Memory", "sizeLimit": "20Gi"},
        "name": "gke-gcsfuse-cache",
    }
    assert cache_volume(is_in_memory=False)["emptyDir"] == {}


def test_a_fuse_volume_is_a_claim_bound_to_a_bucket(recorder):
    args = {"bucket_name": "acme-weights", "claim_name": "weights", "namespace": "serving"}

    def program():
        volume = made(FuseVolume, args)
        return pulumi.Output.all(volume.claim_name, volume.volume_name)

    assert recorder.run(program) == ["weights", "serving-weights"]
    spec = recorder.one(VOLUME).inputs["spec"]
    assert spec["accessModes"] == ["ReadOnlyMany"]
    assert spec["csi"] == {
        "driver": "gcsfuse.csi.storage.gke.io",
        "readOnly": True,
        "volumeHandle": "acme-weights",
    }
    assert spec["claimRef"] == {"name": "weights", "namespace": "serving"}
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    claim = recorder.one(CLAIM).inputs
    assert claim["metadata"] == {"name": "weights", "namespace": "serving"}
    assert claim["spec"]["volumeName"] == "serving-weights"
    assert claim["spec"]["storageClassName"] == spec["storageClassName"]


def test_a_fuse_volume_can_be_written_when_that_is_asked_for(recorder):
    args = {
        "bucket_name": "acme-cache",
        "claim_name": "cache",
        "namespace": "serving",
        "writable": True,
    }
    recorder.run(lambda: made(FuseVolume, args).claim_name)
    spec = recorder.one(VOLUME).inputs["spec"]
    assert spec["accessModes"] == ["ReadWriteMany"]
    assert spec["csi"]["readOnly"] is False
    assert spec["mountOptions"] == ["implicit-dirs"]


def test_a_fuse_volume_with_a_name_kubernetes_refuses_is_refused(recorder):
    args = {"bucket_name": "b", "claim_name": "Weights", "namespace": "serving"}
    refused("claimName", "got 'Weights'", lambda: recorder.run(lambda: made(FuseVolume, args)))


def test_a_fuse_volume_takes_the_provider_of_its_cluster(recorder):
    args = {"bucket_name": "acme-weights", "claim_name": "weights", "namespace": "serving"}

    def program():
        east = pulumi_kubernetes.Provider("east", kubeconfig="{}")
        opts = pulumi.ResourceOptions(providers=[east])
        return made(FuseVolume, args, opts).claim_name

    recorder.run(program)
    assert "east" in recorder.one(VOLUME).provider
    assert "east" in recorder.one(CLAIM).provider


def test_a_model_disk_is_read_by_many_nodes_of_its_zone(recorder):
    assert disk(recorder) == ["acme-llama", "llama"]
    assert recorder.counts() == {
        "ModelDisk": 1,
        "Disk": 1,
        "PersistentVolume": 1,
        "PersistentVolumeClaim": 1,
    }
    made = recorder.one(DISK).inputs
    assert made["accessMode"] == "READ_ONLY_MANY"
    assert made["type"] == "hyperdisk-ml"
    assert made["provisionedThroughput"] == 2400
    assert made["size"] == 200
    spec = recorder.one(VOLUME).inputs["spec"]
    assert spec["accessModes"] == ["ReadOnlyMany"]
    assert spec["csi"]["readOnly"] is True
    assert spec["csi"]["volumeHandle"] == "projects/acme/zones/us-east5-a/disks/acme-llama"
    terms = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms == [
        {
            "matchExpressions": [
                {"key": "topology.gke.io/zone", "operator": "In", "values": ["us-east5-a"]}
            ]
        }
    ]


def test_nothing_waits_for_the_claim_of_a_disk(recorder):
    recorder.run(lambda: made(ModelDisk, DISK_ARGS).claim_name)
    assert recorder.one(CLAIM).inputs["metadata"] == {
        "annotations": {"pulumi.com/skipAwait": "true"},
        "name": "llama",
        "namespace": "serving",
    }


def test_one_claim_covers_the_disks_of_several_zones(recorder):
    disk(recorder, zones=["us-east5-b", "us-east5-a"])
    disks = recorder.all(DISK)
    assert sorted(entry.name for entry in disks) == ["llama-us-east5-a", "llama-us-east5-b"]
    assert {entry.inputs["name"] for entry in disks} == {"acme-llama"}
    assert disks[0].inputs["labels"]["goog-gke-multi-zone"] == "true"
    handle = recorder.one(VOLUME).inputs["spec"]["csi"]["volumeHandle"]
    assert handle == "projects/acme/zones/multi-zone/disks/acme-llama"


def test_an_empty_disk_takes_one_writer_until_it_is_filled(recorder):
    args = {key: value for key, value in DISK_ARGS.items() if key != "snapshot"}
    recorder.run(lambda: made(ModelDisk, args).claim_name)
    assert recorder.one(DISK).inputs["accessMode"] == "READ_WRITE_SINGLE"
    assert recorder.one(CLAIM).inputs["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert recorder.one(VOLUME).inputs["spec"]["csi"]["readOnly"] is False


def test_a_disk_that_was_filled_is_read_by_many(recorder):
    args = {key: value for key, value in DISK_ARGS.items() if key != "snapshot"}
    recorder.run(lambda: made(ModelDisk, {**args, "filled": True}).claim_name)
    assert recorder.one(DISK).inputs["accessMode"] == "READ_ONLY_MANY"


DISK_REFUSES = {
    "two sources": (
        {"image": "llama"},
        "image",
        "must not be set together with 'snapshot', got both",
    ),
    "a copy that is not filled": ({"filled": False}, "filled", "must be true with 'snapshot'"),
    "zones of two regions": (
        {"zones": ["us-east5-a", "us-east4-a"]},
        "zones",
        "different zones of one region",
    ),
    "no zone": ({"zones": []}, "zones", "got []"),
    "a disk that is too small": ({"size_gib": 1}, "sizeGib", "must be 4 to 65536, got 1"),
    "a disk that is too slow": (
        {"throughput_mib_per_s": 10},
        "throughputMibPerS",
        "must be 400 to 1200000, got 10",
    ),
}


@pytest.mark.parametrize(("change", "path", "words"), DISK_REFUSES.values(), ids=DISK_REFUSES)
def test_a_broken_rule_of_a_disk_is_refused(recorder, change, path, words):
    refused(path, words, lambda: disk(recorder, **change))
    assert recorder.all(DISK) == []


def test_an_empty_disk_in_two_zones_is_refused(recorder):
    args = {key: value for key, value in DISK_ARGS.items() if key != "snapshot"}
    zones = {"zones": ["us-east5-a", "us-east5-b"]}
    refused(
        "zones",
        "must be one zone while the disk is filled",
        lambda: recorder.run(lambda: made(ModelDisk, {**args, **zones})),
    )


def test_an_image_is_made_from_a_raw_disk(recorder):
    args = {"image_name": "vllm-0-22", "project": "acme", "raw_disk": "gs://acme/vllm.tar.gz"}
    found = recorder.run(lambda: made(NodeImageCache, args).disk_image)
    assert found == "projects/acme/global/images/vllm-0-22"
    assert recorder.one(IMAGE).inputs["rawDisk"] == {
        "source": "https://storage.googleapis.com/acme/vllm.tar.gz"
    }


def test_an_image_is_made_from_the_disk_the_builder_left(recorder):
    args = {
        "image_name": "vllm",
        "project": "acme",
        "source_disk": "projects/acme/zones/us-east5-a/disks/vllm",
        "storage_region": "us-east5",
    }
    recorder.run(lambda: made(NodeImageCache, args).disk_image)
    inputs = recorder.one(IMAGE).inputs
    assert inputs["sourceDisk"] == "projects/acme/zones/us-east5-a/disks/vllm"
    assert inputs["storageLocations"] == ["us-east5"]


def test_an_image_that_exists_is_only_named(recorder):
    args = {"image_name": "vllm", "project": "acme"}
    found = recorder.run(lambda: made(NodeImageCache, args).disk_image)
    assert found == "projects/acme/global/images/vllm"
    assert recorder.all(IMAGE) == []


IMAGE_REFUSES = {
    "two sources": (
        {"raw_disk": "gs://a/b.tar.gz", "source_disk": "d"},
        "rawDisk",
        "must not be set together with 'sourceDisk'",
    ),
    "a raw disk elsewhere": ({"raw_disk": "vllm.tar.gz"}, "rawDisk", "must be gs://BUCKET/"),
    "a name with a dot": ({"image_name": "vllm.0"}, "imageName", "got 'vllm.0'"),
}


@pytest.mark.parametrize(("change", "path", "words"), IMAGE_REFUSES.values(), ids=IMAGE_REFUSES)
def test_a_broken_rule_of_an_image_is_refused(recorder, change, path, words):
    args = {"image_name": "vllm", "project": "acme", **change}
    refused(path, words, lambda: recorder.run(lambda: made(NodeImageCache, args)))
    assert recorder.all(IMAGE) == []


def test_a_file_cache_never_outgrows_its_volume():
    options = mount_options(cache_gib=20)
    assert "file-cache:max-size-mb:19456" in options
    assert not any(
        option.endswith("max-size-mb:-1") and "file-cache" in option for option in options
    )
    assert "file-cache:max-size-mb:-1" in mount_options(), "a claim does not say how large it is"


PROFILED = {
    "bucket_name": "acme-models",
    "claim_name": "model-bucket",
    "namespace": "models",
    "profile": "serving",
    "project_number": "314",
}


def test_gke_tunes_a_volume_with_a_profile(recorder):
    args: Any = PROFILED
    recorder.run(lambda: FuseVolume("weights", args).claim_name)
    spec = recorder.one(VOLUME).inputs["spec"]
    assert spec["storageClassName"] == "gcsfusecsi-serving"
    assert spec["csi"]["volumeAttributes"] == {"anywhereCacheZones": "none"}
    assert spec["csi"]["readOnly"] is True
    assert "mountOptions" not in spec
    claim = recorder.one(CLAIM).inputs
    assert claim["spec"]["storageClassName"] == "gcsfusecsi-serving"
    assert claim["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    grant = recorder.one("gcp:storage/bucketIAMMember:BucketIAMMember").inputs
    assert grant == {
        "bucket": "acme-models",
        "member": "serviceAccount:service-314@container-engine-robot.iam.gserviceaccount.com",
        "role": "roles/storage.legacyBucketReader",
    }


@pytest.mark.parametrize(
    ("changes", "path", "reason"),
    [
        (
            {"profile": "batch"},
            "profile",
            "must be one of checkpointing, serving, training, got 'batch'",
        ),
        ({"project_number": None}, "projectNumber", "must be set with 'profile', got none"),
    ],
)
def test_a_profile_that_gke_cannot_apply_is_refused(recorder, changes, path, reason):
    args: Any = {**PROFILED, **changes}
    with pytest.raises(pulumi.InputPropertyError) as refused:
        recorder.run(lambda: FuseVolume("weights", args).claim_name)
    assert (refused.value.property_path, refused.value.reason) == (path, reason)
