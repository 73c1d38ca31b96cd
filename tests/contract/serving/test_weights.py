from typing import Any

import pytest

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.versions import engine_version
from gke_inference.serving.weights import bucket_path, storage

WEIGHTS = bucket_path("gs://acme-models/llama", "weights")


def files(kind, **changes):
    values: dict[str, Any] = {
        "cache_bucket": "acme-caches",
        "claim": None,
        "weights_gib": 15.0,
        **changes,
    }
    adapters = values.pop("adapters", {})
    return storage(kind, "llama", WEIGHTS, adapters, is_streamed=kind == "gpu", **values)


def test_a_gpu_server_needs_no_volume_for_its_weights():
    found = files("gpu")
    assert found.source == "gs://acme-models/llama"
    assert (found.volumes, found.mounts, found.annotations, found.environment) == ([], [], {}, {})


def test_adapters_are_folders_of_a_read_only_mount():
    found = files("gpu", adapters={"sql": bucket_path("gs://acme-adapters/sql/", "adapters")})
    assert found.adapters == {"sql": "/mnt/buckets/acme-adapters/sql"}
    (mount,) = found.mounts
    assert mount["mountPath"] == "/mnt/buckets/acme-adapters"
    assert mount["readOnly"] is True
    assert found.volumes[0]["csi"]["readOnly"] is True
    assert found.annotations["gke-gcsfuse/volumes"] == "true"


def test_a_tpu_server_keeps_what_it_compiles():
    found = files("tpu")
    path = found.environment["VLLM_XLA_CACHE_PATH"]
    (mount,) = [entry for entry in found.mounts if entry["name"] == "xla-cache"]
    assert path.startswith(f"{mount['mountPath']}/llama/")
    assert "readOnly" not in mount
    (volume,) = [entry for entry in found.volumes if entry["name"] == "xla-cache"]
    assert volume["csi"]["readOnly"] is False
    assert volume["csi"]["volumeAttributes"]["bucketName"] == "acme-caches"


def test_a_tpu_server_without_a_cache_bucket_is_refused():
    with pytest.raises(ValueError, match="cache_bucket: must be set with a TPU rung, got none"):
        files("tpu", cache_bucket=None)


def test_the_file_cache_of_a_tpu_server_holds_the_whole_model_in_memory():
    (cache,) = [entry for entry in files("tpu").volumes if entry["name"] == "gke-gcsfuse-cache"]
    assert cache["emptyDir"] == {"medium": "Memory", "sizeLimit": "19Gi"}


@pytest.mark.parametrize("kind", ["gpu", "tpu"])
def test_a_claim_replaces_the_bucket_for_the_weights(kind):
    found = files(kind, claim="llama-weights")
    assert found.source == "/mnt/weights"
    (volume,) = [entry for entry in found.volumes if entry["name"] == "weights"]
    assert volume["persistentVolumeClaim"] == {"claimName": "llama-weights", "readOnly": True}
    assert not any(mount["mountPath"].startswith("/mnt/buckets") for mount in found.mounts)


def test_a_version_that_is_named_is_the_folder_that_is_read():
    named = bucket_path("gs://acme-models/llama@2026-11", "weights")
    found = storage(
        "tpu",
        "llama",
        named,
        {},
        cache_bucket="acme-caches",
        claim=None,
        weights_gib=15.0,
        is_streamed=False,
    )
    assert found.source == "/mnt/buckets/acme-models/llama/2026-11"
    assert (found.version, found.has_versions) == ("2026-11", False)


def test_without_a_version_the_server_follows_the_pointer_of_the_model():
    found = files("tpu")
    assert found.source == "/mnt/buckets/acme-models/llama"
    assert (found.version, found.has_versions) == (None, True)
    assert files("tpu", claim="llama-weights").has_versions is False, "a disk holds one version"


@pytest.mark.parametrize("version", ["", "Upper", "a/b"])
def test_a_version_that_is_none_is_refused(version):
    with pytest.raises(ValueError, match="weights"):
        bucket_path(f"gs://acme-models/llama@{version}", "weights")


def test_a_folder_beside_the_versions_is_refused_as_a_version():
    with pytest.raises(InputError) as refused:
        bucket_path("gs://acme-models/llama@adapters", "weights")
    rule = "must not be one of adapters, live-adapters"
    assert refused.value == InputError("weights", rule, "gs://acme-models/llama@adapters")


def test_a_gpu_server_keeps_what_it_compiles_in_one_object_and_mounts_nothing_for_it():
    found = files("gpu")
    assert found.cache_archive == f"gs://acme-caches/llama/{engine_version('vllm_gpu')}"
    assert found.cache_folder == "/home/engine/compiled"
    assert files("gpu", cache_bucket=None).cache_folder is None
    assert files("gpu", engine_name="triton").cache_folder is None
    assert files("tpu").cache_archive is None, "its folder is the bucket"


def test_two_folders_of_one_bucket_are_one_mount():
    found = files("tpu", adapters={"sql": bucket_path("gs://acme-models/sql", "adapters")})
    read = [mount for mount in found.mounts if mount["mountPath"].startswith("/mnt/buckets")]
    assert len(read) == 1


@pytest.mark.parametrize("uri", ["", "llama", "gs://acme-models", "gs://B/llama", "gs://b/ x"])
def test_what_is_no_folder_of_a_bucket_is_refused(uri):
    with pytest.raises(ValueError, match="weights: must be gs://BUCKET/PATH"):
        bucket_path(uri, "weights")


def test_the_file_caches_of_a_pod_fit_into_their_volume_together():
    found = files("tpu", adapters={"sql": bucket_path("gs://acme-adapters/sql/", "adapters")})
    limits = [
        int(option.rpartition(":")[2])
        for volume in found.volumes
        if "csi" in volume
        for option in volume["csi"]["volumeAttributes"]["mountOptions"].split(",")
        if option.startswith("file-cache:max-size-mb:")
    ]
    (cache,) = (volume for volume in found.volumes if volume["name"] == "gke-gcsfuse-cache")
    size = int(cache["emptyDir"]["sizeLimit"].removesuffix("Gi")) * 1024
    assert len(limits) == 2
    assert min(limits) > 0
    assert sum(limits) < size
    assert max(limits) > 15 * 1024, "all of the weights"


def test_a_claim_of_the_bucket_leaves_caches_to_gke():
    found = files("tpu", bucket_claim="model-bucket")
    assert found.source == "/mnt/buckets/acme-models/llama"
    (volume,) = [one for one in found.volumes if "persistentVolumeClaim" in one]
    assert volume["persistentVolumeClaim"] == {"claimName": "model-bucket", "readOnly": True}
    assert not [one for one in found.volumes if one["name"] == "gke-gcsfuse-cache"]
    assert found.annotations["gke-gcsfuse/volumes"] == "true"
    assert found.is_cached is True


def test_adapters_of_the_same_bucket_are_read_through_its_claim():
    adapters = {"sql": bucket_path("gs://acme-models/llama/adapters/sql", "adapters")}
    found = files("gpu", adapters=adapters, bucket_claim="model-bucket")
    (volume,) = found.volumes
    assert volume["persistentVolumeClaim"]["claimName"] == "model-bucket"
    assert found.annotations["gke-gcsfuse/volumes"] == "true"


def test_a_server_that_mounts_no_bucket_does_not_use_its_claim():
    found = files("gpu", bucket_claim="model-bucket")
    assert (found.volumes, found.annotations) == ([], {})
