"""Tiers of KV cache below the accelerator's memory: the engine's flag, and the room in its pod.

vLLM 0.32.0: `OffloadingConnector` with `TieringOffloadingSpec` (v1/kv_offload/tiering/spec.py).
Its memory is one file in /dev/shm (v1/kv_offload/cpu/shared_offload_region.py), so the room must be
in the pod's shared memory. A tier of type `fs` (tiering/fs/manager.py) is a folder with a file for
each block. Below it, vLLM separates blocks by the path of the model, block size, data type and
parallelism (v1/kv_offload/file_mapper.py), but not by what is in the path, by the quantization or
by the layout of the attention backend. On a share, the folder is therefore specific to these.
"""

import json
from typing import Any

from gke_inference.base.manifests import Manifest, fingerprint
from gke_inference.catalogue.versions import engine_version
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.settings import KvOffload
from gke_inference.serving.launcher.spec import KV_DISK, KV_SHARED

_OTHER_DISK_GIB = 10
"""Ephemeral storage of a pod beside the tier: the home directory of the engine's user."""
_SHARED_MEMORY = "shared-memory"


def offload_flag(offload: KvOffload, own: str) -> str:
    """Return the engine's `--kv-transfer-config`; `own` is its folder on the share.

    If blocks of a lower tier cannot be read, the prompt is computed again; vLLM's default is to
    fail the request.
    """
    tiers: list[dict[str, str]] = [
        {"root_dir": folder, "type": "fs"} for folder in folders(offload, own)
    ]
    extra: dict[str, Any] = {"cpu_bytes_to_use": offload.cpu_gib * 2**30}
    if tiers:
        extra |= {"secondary_tiers": tiers, "spec_name": "TieringOffloadingSpec"}
    config: dict[str, Any] = {
        "kv_connector": "OffloadingConnector",
        "kv_connector_extra_config": extra,
        "kv_load_failure_policy": "recompute",
        "kv_role": "kv_both",
    }
    return f"--kv-transfer-config={json.dumps(config, separators=(',', ':'), sort_keys=True)}"


def folders(offload: KvOffload, own: str) -> list[str]:
    """Return the folders of the lower tiers, from the fastest."""
    tiers = {KV_DISK: offload.disk_gib, own: _shared_gib(offload)}
    return [folder for folder, gib in tiers.items() if gib is not None]


def limits(offload: KvOffload, own: str) -> dict[str, int]:
    """Return folders and the most GiB in each: on a share, of a model's former folders together."""
    tiers = {KV_DISK: offload.disk_gib, own.rpartition("/")[0]: _shared_gib(offload)}
    return {folder: gib for folder, gib in tiers.items() if gib is not None}


def own_folder(intent: ServingIntent) -> str:
    """Return the folder on a share with the blocks that a model's replicas may read.

    Everything that may change the bytes of a block changes the folder: the engine's release, the
    weights, the quantization, the accelerator, and all engine arguments and variables.
    """
    settings, guess = intent.settings, intent.settings.speculative
    parts: dict[str, Any] = {
        "accelerators": sorted({rung.accelerator for rung in intent.rungs.values()}),
        "engine_args": settings.flags,
        "engine_env": settings.variables,
        "kv_cache_dtype": settings.kv_cache_dtype,
        "quantization": settings.quantization,
        "speculative": None if guess is None else guess.model_dump(mode="json"),
        "weights": intent.weights,
    }
    release = engine_version(f"{intent.engine}_gpu")
    return f"{KV_SHARED}/{intent.model}/kv-cache/{release}-{fingerprint(parts)}"


def tier_volumes(offload: KvOffload | None, claim: str | None) -> list[tuple[Manifest, Manifest]]:
    """Return the volumes of the lower tiers, each with its mount; `claim` is that of the share.

    The disk has no size limit: the kubelet would evict the pod, whose files are deleted only
    some seconds after the tier is full. Its request reserves the room.
    """
    sources: list[tuple[str, str, Manifest]] = []
    if offload is not None and offload.disk_gib is not None:
        sources.append(("kv-disk", KV_DISK, {"emptyDir": {}}))
    if offload is not None and offload.shared is not None:
        sources.append(("kv-shared", KV_SHARED, {"persistentVolumeClaim": {"claimName": claim}}))
    return [
        ({**source, "name": name}, {"mountPath": at, "name": name}) for name, at, source in sources
    ]


def with_room(volumes: list[Manifest], offload: KvOffload | None) -> list[Manifest]:
    """Return the scratch volumes of a pod, with room for the tier in its shared memory."""
    if offload is None:
        return volumes
    return [
        {
            **volume,
            "emptyDir": {
                **volume["emptyDir"],
                "sizeLimit": f"{_gib(volume) + offload.cpu_gib}Gi",
            },
        }
        if volume["name"] == _SHARED_MEMORY
        else volume
        for volume in volumes
    ]


def disk_request(offload: KvOffload | None) -> dict[str, str]:
    """Return the ephemeral storage that a pod requests for a tier on local SSD."""
    if offload is None or offload.disk_gib is None:
        return {}
    return {"ephemeral-storage": f"{offload.disk_gib + _OTHER_DISK_GIB}Gi"}


def _shared_gib(offload: KvOffload) -> int | None:
    return None if offload.shared is None else offload.shared.gib


def _gib(volume: Manifest) -> int:
    return int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi"))
