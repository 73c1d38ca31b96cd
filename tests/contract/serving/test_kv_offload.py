"""Model servers with tiers of KV cache below the accelerator's memory."""

import json
import re
from typing import Any

import pytest

from gke_inference.catalogue.input_error import InputError
from gke_inference.serving.launcher.spec import Serving, read
from gke_inference.serving.model_server import ModelServer
from tests.model_plans import planned

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
H100: Any = {
    "accelerator": "nvidia-h100-80gb",
    "count": 1,
    "machine_type": "a3-highgpu-1g",
    "provisioning": "spot",
}
L4: Any = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}
V6E: Any = {"accelerator": "tpu-v6e", "provisioning": "on-demand", "topology": "2x2"}
H100_8: Any = {"accelerator": "nvidia-h100-80gb", "count": 8, "provisioning": "spot"}
TWO_HOSTS: Any = {
    "accelerator": "nvidia-h200-141gb",
    "count": 8,
    "hosts": 2,
    "provisioning": "spot",
}
ADAPTER = {"sql": "gs://acme-models/llama/adapters/sql"}
MEMORY = {"kv_claim": None, "settings": {"kv_offload": {"cpu_gib": 8}}}
ON_SHARE = {"cpu_gib": 8, "shared": {"gib": 9}}
ALL_TIERS = {"cpu_gib": 100, "disk_gib": 500, "shared": {"gib": 800}}
SHARED = "/mnt/kv-shared/llama-8b/kv-cache"


@pytest.fixture
def tiered(args) -> dict[str, Any]:
    """The model on one H100, with every tier."""
    kept = {key: value for key, value in args.items() if key not in ("cache_bucket", "adapters")}
    own = {"kv_claim": "shared-folder", "settings": {"kv_offload": ALL_TIERS}, "rungs": [H100]}
    return {**kept, **own}


def changed(args: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return inputs with other ones, and other settings beside those they have."""
    return {**args, **changes, "settings": {**args["settings"], **changes.get("settings", {})}}


def pod_of(recorder, args) -> dict[str, Any]:
    recorder.run(lambda: ModelServer("llama", args))
    return recorder.one(DEPLOYMENT).inputs["spec"]["template"]["spec"]


def flag(pod: dict[str, Any]) -> dict[str, Any]:
    found = [arg for arg in pod["containers"][0]["args"] if arg.startswith("--kv-transfer-config=")]
    return json.loads(found[0].partition("=")[2])


def serving_of(args) -> Serving:
    return planned(args).serving["gpu"]


def own_folder(args) -> str:
    """Return the folder of the share that the engine reads and writes."""
    return serving_of(args).kv_current[-1]


def refused(args) -> str:
    with pytest.raises(InputError) as error:
        serving_of(args)
    return str(error.value)


def test_the_engine_is_told_of_each_tier_in_vllms_words(recorder, tiered):
    own = own_folder(tiered)
    assert re.fullmatch(SHARED + "/0[.]32[.]0-[0-9a-f]{16}", own)
    assert flag(pod_of(recorder, tiered)) == {
        "kv_connector": "OffloadingConnector",
        "kv_connector_extra_config": {
            "cpu_bytes_to_use": 100 * 2**30,
            "secondary_tiers": [
                {"root_dir": "/mnt/kv-disk", "type": "fs"},
                {"root_dir": own, "type": "fs"},
            ],
            "spec_name": "TieringOffloadingSpec",
        },
        "kv_load_failure_policy": "recompute",
        "kv_role": "kv_both",
    }


def test_memory_alone_needs_no_tiering(recorder, tiered):
    pod = pod_of(
        recorder, {**tiered, "kv_claim": None, "settings": {"kv_offload": {"cpu_gib": 10}}}
    )
    assert flag(pod)["kv_connector_extra_config"] == {"cpu_bytes_to_use": 10 * 2**30}
    assert not {"kv-disk", "kv-shared"} & {each["name"] for each in pod["volumes"]}
    assert "ephemeral-storage" not in pod["containers"][0]["resources"]["requests"]


def test_the_pod_has_room_for_every_tier(recorder, tiered):
    pod = pod_of(recorder, tiered)
    volumes = {each["name"]: each for each in pod["volumes"]}
    mounts = {each["name"]: each for each in pod["containers"][0]["volumeMounts"]}
    assert volumes["shared-memory"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "102Gi"}
    assert volumes["kv-disk"] == {"emptyDir": {}, "name": "kv-disk"}
    assert volumes["kv-shared"]["persistentVolumeClaim"] == {"claimName": "shared-folder"}
    assert mounts["kv-shared"] == {"mountPath": "/mnt/kv-shared", "name": "kv-shared"}
    requests = pod["containers"][0]["resources"]["requests"]
    assert requests["ephemeral-storage"] == "510Gi"
    assert requests["memory"] == "163Gi"


def test_the_launcher_limits_the_folders_that_the_engine_does_not(recorder, tiered):
    recorder.run(lambda: ModelServer("llama", tiered))
    spec = read(recorder.one(CONFIG_MAP).inputs["data"]["spec.json"])
    assert spec.serving["gpu"].kv_folders == {"/mnt/kv-disk": 500, SHARED: 800}
    assert spec.serving["gpu"].kv_current == ("/mnt/kv-disk", own_folder(tiered))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"settings": {"kv_offload": {"cpu_gib": 154}}},
            "settings.kv_offload.cpu_gib: must be at most 153 on a3-highgpu-1g: 234 GiB of "
            "memory, of which "
            "10 are for the engine, got 154",
        ),
        (
            {"settings": {"kv_offload": {"cpu_gib": 8, "disk_gib": 600}}},
            "settings.kv_offload.disk_gib: must be at most 562 on a3-highgpu-1g: 2 local SSDs, "
            "got 600",
        ),
        (
            {"settings": {"kv_offload": {"cpu_gib": 1, "disk_gib": 5}}, "rungs": [L4]},
            "settings.kv_offload.disk_gib: must not be set: g2-standard-12 has no local SSD of "
            "its own, "
            "got 5",
        ),
        (
            {"settings": {"kv_offload": {"cpu_gib": 0}}},
            "settings.kv_offload.cpu_gib: must be 1 to 102400, got 0",
        ),
        (
            {"kv_claim": None},
            "kv_claim: must be set with settings.kv_offload.shared, got none",
        ),
        (
            {"settings": {"kv_offload": {"cpu_gib": 8}}},
            "kv_claim: must not be set without settings.kv_offload.shared, got 'shared-folder'",
        ),
        (
            {"settings": {"prefix_caching": False}},
            "settings.kv_offload: must not be set without prefix_caching: blocks are found by it",
        ),
        (
            {"task": "embed"},
            "settings.kv_offload: must not be set when task is embed: no prefix is cached",
        ),
        (
            {"engine": "sglang"},
            "settings.kv_offload: is not supported for SGLang on nvidia-h100-80gb",
        ),
        (
            {"rungs": [V6E], "cache_bucket": "acme-caches"},
            "settings.kv_offload: is not supported for vLLM on tpu-v6e",
        ),
        (
            {"role": "decode"},
            "settings.kv_offload: must not be set with disaggregated prefill and decode: one "
            "connector "
            "moves blocks",
        ),
        (
            {"rungs": [TWO_HOSTS], **MEMORY},
            "settings.kv_offload: must not be set when nvidia-h200-141gb x8 on 2 hosts spot spans "
            "2 hosts: "
            "memory is shared within one",
        ),
        (
            {
                "kv_claim": None,
                "rungs": [H100_8],
                "settings": {"kv_offload": {"cpu_gib": 8}, "tensor_parallel": 4},
            },
            "settings.kv_offload: must not be set with several copies in a pod: each would have "
            "tiers of "
            "its own",
        ),
        (
            {"rungs": [H100_8], "experts": {}, **MEMORY},
            "settings.kv_offload: must not be set with experts: each data-parallel rank would "
            "have tiers of "
            "its own",
        ),
    ],
)
def test_tiers_that_cannot_be_are_refused(tiered, changes, message):
    assert refused(changed(tiered, changes)) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {
                "adapters": ADAPTER,
                "kv_claim": None,
                "settings": {"kv_offload": {"cpu_gib": 8, "disk_gib": 5}},
            },
            "settings.kv_offload.disk_gib: must not be set with adapters: blocks are found by the "
            "path of "
            "an adapter, not by its content, got 5",
        ),
        (
            {"adapters": ADAPTER, "settings": {"kv_offload": ON_SHARE}},
            "settings.kv_offload.shared.gib: must not be set with adapters: blocks are found by "
            "the path of "
            "an adapter, not by its content, got 9",
        ),
        (
            {"live_adapters": {"source": "gs://acme-models/llama/live-adapters"}, **MEMORY},
            "settings.kv_offload: must not be set with live_adapters: an adapter that is uploaded "
            "again has "
            "the same path, by which its old blocks are found",
        ),
        (
            {"weights_claim": "llama-weights", "settings": {"kv_offload": ON_SHARE}},
            "settings.kv_offload.shared.gib: must not be set with weights on a disk, unless "
            "'weights' names "
            "their version, got 9: other weights on it would read the same blocks",
        ),
        (
            {
                "settings": {
                    "engine_args": {"prefix-caching-hash-algo": "xxhash"},
                    "kv_offload": ON_SHARE,
                }
            },
            "settings.engine_args.prefix-caching-hash-algo: must be sha256 or sha256_cbor with "
            "kv_offload.shared, unless engine_env sets PYTHONHASHSEED, got 'xxhash': each engine "
            "would have names of its own for blocks",
        ),
        (
            {"rungs": [H100, L4], "settings": {"kv_offload": {**ON_SHARE, "cpu_gib": 1}}},
            "settings.kv_offload.shared.gib: must not be set when the rungs have several "
            "accelerators, got "
            "9: nvidia-h100-80gb, nvidia-l4 may have different layouts of a block",
        ),
    ],
)
def test_tiers_that_could_return_old_blocks_or_none_are_refused(tiered, changes, message):
    assert refused(changed(tiered, changes)) == message


def test_a_common_seed_lets_engines_share_blocks_by_xxhash(tiered):
    own = {
        "engine_args": {"prefix-caching-hash-algo": "xxhash"},
        "engine_env": {"PYTHONHASHSEED": "0"},
        "kv_offload": ON_SHARE,
    }
    assert serving_of({**tiered, "settings": own}).kv_folders


def test_adapters_that_never_change_while_the_engine_runs_may_be_in_memory(tiered):
    own = serving_of({**tiered, "adapters": ADAPTER, **MEMORY})
    assert (own.kv_folders, own.adapters.keys()) == ({}, {"sql"})


def test_versions_of_weights_on_a_disk_have_folders_of_their_own(tiered):
    tiered |= {"settings": {"kv_offload": ON_SHARE}, "weights_claim": "llama-weights"}
    first, second = (
        own_folder({**tiered, "weights": f"gs://acme-models/llama@{version}"})
        for version in ("v1", "v2")
    )
    assert first != second


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": "gs://acme-models/llama@v2"},
        {"settings": {"quantization": "fp8"}, "size": {"parameters_billion": 8.0, "bits": 8}},
        {"settings": {"kv_cache_dtype": "fp8"}},
        {"settings": {"engine_args": {"max-num-batched-tokens": "4096"}}},
        {"settings": {"engine_env": {"VLLM_KV_CACHE_LAYOUT": "HND"}}},
        {"settings": {"speculative": {"method": "ngram", "tokens": 3}}},
    ],
)
def test_what_may_change_a_block_changes_the_folder_on_the_share(recorder, tiered, changes):
    tiered |= {"settings": {"kv_offload": ON_SHARE}}
    assert own_folder(tiered) == own_folder(dict(tiered))
    assert own_folder(tiered) != own_folder(changed(tiered, changes))
