"""LoRA adapters uploaded while a model serves: memory, volume and the loader container.

For why each engine has a loader instead of using vLLM's resolver, see
docs/adr/0008-live-adapters.md.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from gke_inference.base.manifests import Manifest, literal
from gke_inference.catalogue.fuse import fuse_volume
from gke_inference.intent.words import Task
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
    """A folder with an adapter per subfolder, and how many one batch may use."""

    source: BucketPath | ClaimPath
    max_rank: int = 16
    slots: int = 8

    @property
    def folder(self) -> str:
        """Path of the folder in a pod."""
        return f"{MOUNT}/{self.source.path}"


@dataclass(frozen=True)
class Slots:
    """Memory that an engine reserves for adapters."""

    in_batch: int
    """Different adapters per batch, 0 for none."""
    cached: int
    """Adapters in main memory."""
    rank: int
    """Maximum rank."""


def slots(live: LiveAdapters | None, given: int, rank: int) -> Slots:
    """Return the adapter slots for configured and live adapters.

    Args:
        live: the folder, or None if all adapters are known.
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


def with_live(files: Storage, live: LiveAdapters, task: Task) -> Storage:
    """Return an engine's files with the folder mounted and run-time loading enabled.

    The image server reads the folder itself and has no endpoints to enable.
    """
    if isinstance(live.source, ClaimPath):
        claim = {"claimName": live.source.claim, "readOnly": True}
        volume: Manifest = {"name": _VOLUME, "persistentVolumeClaim": claim}
    else:
        # No long-lived caches: a new folder must be visible within seconds.
        volume = fuse_volume(_VOLUME, live.source.bucket, is_live=True)
    mount: Manifest = {"mountPath": MOUNT, "name": _VOLUME, "readOnly": True}
    return files.extended(volume, mount, {} if task.is_diffusion else {_RUNTIME_LOADING: "True"})


def loader_container(
    engine: Manifest, live: LiveAdapters | None, base_names: list[str], given: list[str]
) -> Manifest:
    """Return the container that loads adapters into the engine of its pod.

    Before the replica becomes ready, it also sends one request to an adapter: the picker treats a
    replica that has never used an adapter as having no free slot (see
    `adapter_loader.Engine.warm`).

    Args:
        engine: the engine's container; the loader runs in its image, which is there already.
        live: the folder; None if no adapter comes later.
        base_names: names that no adapter may take.
        given: adapters that the engine loads by itself.
    """
    port = engine["ports"][0]["containerPort"]
    environment = {
        "ADAPTERS_FOLDER": "" if live is None else live.folder,
        "ADAPTERS_PORT": str(LOADER_PORT),
        "BASE_NAMES": literal(json.dumps(sorted(base_names))),
        "ENGINE_URL": f"http://$(POD_IP):{port}",
        "GIVEN_ADAPTERS": literal(json.dumps(given)),
        "POLL_SECONDS": str(_POLL_SECONDS),
    }
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    mount = {"mountPath": MOUNT, "name": _VOLUME, "readOnly": True}
    return {
        "command": ["python3", "-c", script()],
        "env": [address, *({"name": key, "value": value} for key, value in environment.items())],
        "image": engine["image"],
        "name": LOADER,
        # only for the kubelet, which network policies do not restrict, so none opens it
        "ports": [{"containerPort": LOADER_PORT, "name": "adapters"}],
        # Ready once all initial adapters have been tried: the replica gets no requests before.
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
    """Return the loader's source."""
    return Path(__file__).with_name("adapter_loader.py").read_text()
