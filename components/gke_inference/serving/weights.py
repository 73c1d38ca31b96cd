"""Locations of a model server's weights, adapters and compiled programs.

- An engine that can (vLLM on GPU) streams them from the bucket into device memory; no volume.
- Others read them through GCS FUSE with a file cache in memory and parallel downloads.
- Adapters are folders of a bucket, so they come through GCS FUSE on both.
- A claim (Hyperdisk ML) replaces the bucket for the weights.
- TPU programs are compiled for minutes; a writable FUSE mount keeps them for the next start. What
  an engine compiles on GPU is kept by its launcher, in one object of the same bucket.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gke_inference.base.manifests import Manifest, fingerprint
from gke_inference.catalogue.engines import DEFAULT_ENGINE, engine
from gke_inference.catalogue.fuse import cache_volume, fuse_volume, pod_annotations
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.versions import engine_version
from gke_inference.intent.host_memory import OTHER_CACHE_GIB, weights_cache_gib
from gke_inference.serving.launcher.weights_manifest import version_problem

BUCKETS = "/mnt/buckets"
CLAIM = "/mnt/weights"
XLA_CACHE = "/mnt/xla-cache"
GPU_CACHE = "/home/engine/compiled"
"""Path in the volume that is the home directory of an engine's user."""

_URI = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])/([^\s@][^@]*?)/?(@\S+)?")


@dataclass(frozen=True)
class BucketPath:
    """A folder of a bucket, which may be a model with a folder per version."""

    bucket: str
    path: str
    version: str | None = None
    """Selected version, or None for the one that the model's pointer names, or for a folder without
    versions."""

    @property
    def uri(self) -> str:
        """The `gs://` URI; for a version, of its folder."""
        return f"gs://{self.bucket}/{self.folder}"

    @property
    def mounted(self) -> str:
        """Path of the folder when its bucket is mounted."""
        return f"{BUCKETS}/{self.bucket}/{self.folder}"

    @property
    def folder(self) -> str:
        """The folder in the bucket; for a version, its folder."""
        return self.path if self.version is None else f"{self.path}/{self.version}"


@dataclass(frozen=True)
class ClaimPath:
    """A folder of a volume claim."""

    claim: str
    path: str


@dataclass(frozen=True)
class Storage:
    """Files of a pod."""

    source: str
    """Value of the engine's `--model`."""
    adapters: dict[str, str]
    """Adapter name to its folder in the pod."""
    volumes: list[Manifest]
    mounts: list[Manifest]
    environment: dict[str, str]
    annotations: dict[str, str]
    cache_folder: str | None = None
    """Folder with compiled programs."""
    cache_archive: str | None = None
    """`gs://` folder that persists them, or None if `cache_folder` does."""
    cache_gib: int = 0
    """Size of the file cache in memory, or 0 without one."""
    is_autopilot: bool = False
    is_cached: bool = False
    """Whether the weights are read through a mount with a file cache."""
    draft: str | None = None
    """Location of the draft model of speculative decoding, like `source`."""
    further: Mapping[str, str] = field(default_factory=dict[str, str])
    """Location of each further model, like `source`."""
    has_versions: bool = False
    """Whether `source` contains the model's versions, one of which its pointer names."""
    version: str | None = None
    """Version that `source` contains, or None for any."""

    def extended(self, volume: Manifest, mount: Manifest, environment: dict[str, str]) -> "Storage":
        """Return a copy with one more volume, of a bucket or a claim."""
        own = pod_annotations(is_autopilot=self.is_autopilot) if "csi" in volume else {}
        return replace(
            self,
            annotations={**own, **self.annotations},
            environment={**self.environment, **environment},
            mounts=[*self.mounts, mount],
            volumes=[*self.volumes, volume],
        )


def bucket_path(uri: str, where: str) -> BucketPath:
    """Return the parts of `gs://BUCKET/PATH` or `gs://BUCKET/PATH@VERSION`.

    Raises:
        InputError: The text is something else.
    """
    found = _URI.fullmatch(uri)
    if found is None:
        raise InputError(where, "must be gs://BUCKET/PATH, or gs://BUCKET/PATH@VERSION", uri)
    version = found[3][1:] if found[3] else None
    rule = None if version is None else version_problem(version)
    if rule is not None:
        raise InputError(where, rule, uri)
    return BucketPath(found[1], found[2], version)


def storage(
    kind: str,
    model: str,
    weights: BucketPath,
    adapters: dict[str, BucketPath],
    *,
    cache_bucket: str | None,
    claim: str | None,
    weights_gib: float,
    is_streamed: bool,
    bucket_claim: str | None = None,
    draft: BucketPath | None = None,
    further: Mapping[str, BucketPath] | None = None,
    engine_name: str = DEFAULT_ENGINE,
    is_autopilot: bool = False,
) -> Storage:
    """Return the volumes, mounts and environment of one engine.

    `bucket_claim` is a claim of the bucket with the weights, which replaces its mount in the pod.
    `further` are further models of the server, by name: folders of the bucket with the weights,
    also if the first model is in a claim. `weights_gib` is the size of what is read from it.

    Raises:
        InputError: A TPU server has nowhere to keep what it compiles.
    """
    if kind == "tpu" and cache_bucket is None:
        rule = "must be set with a TPU rung"
        note = ": without it every start compiles for 10 to 30 minutes"
        raise InputError("cache_bucket", rule, None, note)
    volumes: list[Manifest] = []
    mounts: list[Manifest] = []
    is_mounted = not is_streamed and claim is None
    read = {entry.bucket for entry in adapters.values()}
    if is_mounted:
        read.add(weights.bucket)
    if draft is not None and not is_streamed:
        read.add(draft.bucket)
    read |= {entry.bucket for entry in (further or {}).values()}
    # Mounts share one cache volume, each limited to its part: older files are evicted.
    is_cached = is_mounted or bool(further)
    caches = dict.fromkeys(read, OTHER_CACHE_GIB) if is_cached else {}
    if is_cached and bucket_claim is None:
        caches[weights.bucket] = weights_cache_gib(weights_gib)
    for bucket in sorted(read):
        name = f"bucket-{fingerprint(bucket)[:8]}"
        if bucket == weights.bucket and bucket_claim is not None:
            # GKE chooses where to cache, and how much
            caches.pop(bucket, None)
            source = {"claimName": bucket_claim, "readOnly": True}
            volumes.append({"name": name, "persistentVolumeClaim": source})
        else:
            volumes.append(fuse_volume(name, bucket, cache_gib=caches.get(bucket)))
        mounts.append({"mountPath": f"{BUCKETS}/{bucket}", "name": volumes[-1]["name"]})
        mounts[-1]["readOnly"] = True
    if claim is not None:
        volumes.append(
            {"name": "weights", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
        )
        mounts.append({"mountPath": CLAIM, "name": "weights", "readOnly": True})
    able = engine(engine_name).hardware[kind]
    environment: dict[str, str] = {}
    cache_folder: str | None = None
    if cache_bucket is not None and able.cache_variable is not None:
        volumes.append(fuse_volume("xla-cache", cache_bucket, is_read_only=False))
        mounts.append({"mountPath": XLA_CACHE, "name": "xla-cache"})
        # Another engine release must not use these programs.
        release = engine_version(f"{engine_name}_{kind}")
        cache_folder = f"{XLA_CACHE}/{model}/{release}"
        environment[able.cache_variable] = cache_folder
    cache_archive: str | None = None
    if cache_bucket is not None and able.archived_cache:
        cache_folder = GPU_CACHE
        cache_archive = f"gs://{cache_bucket}/{model}/{engine_version(f'{engine_name}_{kind}')}"
    if caches:
        volumes.append(cache_volume(sum(caches.values())))
    return Storage(
        adapters={name: entry.mounted for name, entry in adapters.items()},
        annotations=pod_annotations(sum(caches.values()), is_autopilot=is_autopilot)
        if read or _has_bucket(volumes)
        else {},
        cache_gib=sum(caches.values()),
        is_autopilot=is_autopilot,
        draft=None if draft is None else draft.uri if is_streamed else draft.mounted,
        cache_archive=cache_archive,
        cache_folder=cache_folder,
        environment=environment,
        further={name: entry.mounted for name, entry in (further or {}).items()},
        has_versions=claim is None and weights.version is None,
        is_cached=is_mounted,
        mounts=mounts,
        source=_source(is_mounted, claim, weights),
        version=weights.version,
        volumes=volumes,
    )


def _source(is_mounted: bool, claim: str | None, weights: BucketPath) -> str:
    if claim is not None:
        return CLAIM
    return weights.mounted if is_mounted else weights.uri


def _has_bucket(volumes: list[Manifest]) -> bool:
    return any("csi" in volume for volume in volumes)
