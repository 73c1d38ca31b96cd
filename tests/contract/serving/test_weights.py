import pytest

from gke_inference.serving.weights import bucket_path, storage

WEIGHTS = bucket_path("gs://acme-models/llama", "weights")


def files(kind, **changes):
    values = {"cache_bucket": "acme-caches", "claim": None, "weights_gib": 15.0, **changes}
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


def test_two_folders_of_one_bucket_are_one_mount():
    found = files("tpu", adapters={"sql": bucket_path("gs://acme-models/sql", "adapters")})
    read = [mount for mount in found.mounts if mount["mountPath"].startswith("/mnt/buckets")]
    assert len(read) == 1


@pytest.mark.parametrize("uri", ["", "llama", "gs://acme-models", "gs://B/llama", "gs://b/ x"])
def test_what_is_no_folder_of_a_bucket_is_refused(uri):
    with pytest.raises(ValueError, match="weights: must be gs://BUCKET/PATH"):
        bucket_path(uri, "weights")
