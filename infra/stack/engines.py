"""Engine settings of a stack: those of a model server, with the places and secrets of a stack."""

from pydantic import Field

from gke_inference.intent import settings
from gke_inference.settings import Word
from gke_inference.settings.fields import SecretId


class SharedPlace(Word):
    """Kind of volume that replicas share."""

    FILESTORE = "filestore"
    LUSTRE = "lustre"


class SharedTier(settings.SharedTier):
    """A tier of KV cache that all replicas of a region share, and that outlives them."""

    place: SharedPlace
    """Volume of the tier: `filestore`, the share of `storage.filestore`; or `lustre`, the instance
    of `storage.lustre`."""


class KvOffload(settings.KvOffload):
    """KV cache beyond the accelerator's memory, for prompts whose prefix was evicted from it.

    Every computed block is also stored in each of the tiers. vLLM on GPU only, and not with live
    adapters. With adapters, only `cpu_gib`.
    """

    shared: SharedTier | None = None
    """A volume for blocks, which all replicas of a region share. None by default."""


class EngineSettings(settings.EngineSettings):
    """Engine settings. Settings that the engine or its hardware does not support are rejected."""

    kv_offload: KvOffload | None = None
    """KV cache beyond the accelerator's memory. None by default."""
    engine_secrets: dict[str, SecretId] = Field(default_factory=dict[str, str])
    """Environment variables of the engine with the value of a secret, by the secret's ID in Secret
    Manager, in the project of the stack. An engine reads the latest version when it starts."""
