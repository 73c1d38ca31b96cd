"""LoRA adapters that are uploaded while a model serves: room, volume and the loader's container.

Why a loader beside each engine and not vLLM's own resolver: docs/adr/0008-live-adapters.md.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.fuse import fuse_volume
from gke_inference.serving.weights import BucketPath, ClaimPath, Storage

MOUNT = "/mnt/live-adapters"
LOADER = "adapter-loader"
LOADER_PORT = 8010
_VOLUME = "live-adapters"
_POLL_SECONDS = 2
_CACHED_PER_SLOT = 4
_IN_A_BATCH = 8
_RUNTIME_LOADING = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"


@dataclass(frozen=True)
class LiveAdapters:
    """A folder whose folders are adapters, and how many are computed at once."""

    source: BucketPath | ClaimPath
    max_rank: int = 16
    slots: int = 8

    @property
    def folder(self) -> str:
        """Where the folder is in a pod."""
        return f"{MOUNT}/{self.source.path}"


@dataclass(frozen=True)
class Slots:
    """Memory that an engine sets aside for adapters."""

    in_batch: int
    """Different adapters of one batch; 0: no adapters."""
    cached: int
    """Adapters in main memory."""
    rank: int
    """Largest rank."""


def slots(live: LiveAdapters | None, given: int, rank: int) -> Slots:
    """Returns the room for adapters: those of the stack and those that are still to come.

    Args:
        live: the folder, or None where all adapters are known.
        given: how many adapters the stack names.
        rank: largest rank of those.
    """
    if live is None and not given:
        return Slots(0, 0, rank)
    in_batch = max(min(given, _IN_A_BATCH), live.slots if live else 0)
    return Slots(
        cached=max(given, in_batch) if live is None else given + _CACHED_PER_SLOT * in_batch,
        in_batch=in_batch,
        rank=max(rank if given else 1, live.max_rank if live else 1),
    )


def with_live(files: Storage, live: LiveAdapters) -> Storage:
    """Returns an engine's files with the folder mounted, and loading at run time allowed."""
    if isinstance(live.source, ClaimPath):
        claim = {"claimName": live.source.claim, "readOnly": True}
        volume: Manifest = {"name": _VOLUME, "persistentVolumeClaim": claim}
    else:
        # Nothing is cached for good here: a new folder has to be seen within seconds.
        volume = fuse_volume(_VOLUME, live.source.bucket, is_live=True)
    mount: Manifest = {"mountPath": MOUNT, "name": _VOLUME, "readOnly": True}
    return files.extended(volume, mount, {_RUNTIME_LOADING: "True"})


def loader_container(
    engine: Manifest, live: LiveAdapters | None, base_names: list[str], given: list[str]
) -> Manifest:
    """Returns the container that loads adapters into the engine of its pod.

    Before the replica is ready it also asks the engine once for an adapter: the picker takes a
    replica that never computed one for full (see `adapter_loader.Engine.warm`).

    Args:
        engine: the engine's container; the loader runs in its image, which is there already.
        live: the folder; None where no adapter comes later.
        base_names: names that no adapter may take.
        given: adapters that the engine loads by itself.
    """
    port = engine["ports"][0]["containerPort"]
    environment = {
        "ADAPTERS_FOLDER": "" if live is None else live.folder,
        "ADAPTERS_PORT": str(LOADER_PORT),
        "BASE_NAMES": json.dumps(sorted(base_names)),
        "ENGINE_URL": f"http://$(POD_IP):{port}",
        "GIVEN_ADAPTERS": json.dumps(given),
        "POLL_SECONDS": str(_POLL_SECONDS),
    }
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    mount = {"mountPath": MOUNT, "name": _VOLUME, "readOnly": True}
    return {
        "command": ["python3", "-c", script()],
        "env": [address, *({"name": key, "value": value} for key, value in environment.items())],
        "image": engine["image"],
        "name": LOADER,
        # for the kubelet only, which no network policy holds back: none opens it
        "ports": [{"containerPort": LOADER_PORT, "name": "adapters"}],
        # Ready once every adapter that was there has been tried: no replica gets requests before.
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": LOADER_PORT},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
        },
        "resources": {
            "limits": {"memory": "256Mi"},
            "requests": {"cpu": "50m", "memory": "64Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [] if live is None else [mount],
    }


def script() -> str:
    """Returns the loader's text."""
    return Path(__file__).with_name("adapter_loader.py").read_text()
