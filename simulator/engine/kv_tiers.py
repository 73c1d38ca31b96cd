"""Tiers of KV cache below the accelerator's memory, as of vLLM's OffloadingConnector.

As in vLLM 0.32.0 (v1/kv_offload/tiering/manager.py), a full block is stored in main memory and,
from there, in all lower tiers; a block of a lower tier is read into main memory before the
accelerator reads it. Main memory evicts the block that was used least recently. Lower tiers are
folders with a file for each block, without a limit: a launcher deletes the oldest files. Here the
files are sparse: they have the size of a block, and no content.

Assumed: stores cost the engine no time, and a block can be found as soon as it is computed.
"""

import argparse
import hashlib
import json
import os
import secrets
import tempfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from zlib import crc32

from gke_inference.sizing.memory import kv_token_bytes
from planner.speed.kv_tiers import (
    disk_bytes_per_second,
    disks_of,
    link_bytes_per_second,
    share_bytes_per_second,
)
from simulator.engine.kv_cache import BlockHash
from simulator.engine.settings import Deployment, EngineError
from workloads.engine.spec import KV_SHARED

CONNECTOR = "OffloadingConnector"
NO_LMCACHE = "ModuleNotFoundError: No module named 'lmcache'"
"""Whether an engine's image has the package is not known: here it has not. With it, an engine would
need an LMCache server, or could read wrong blocks (docs/adr/0044-kv-cache-tiers.md)."""
HOST, DISK = "host", "disk"
"""Sources in vLLM's metrics: main memory, and any folder."""
_SHARE_GIB = 1024
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY
_LOOKUP_SECONDS = 0.002
"""Time to find blocks and to see the end of a read, between two steps: assumed."""


@dataclass
class Folder:
    """A lower tier: a folder with one file for each block."""

    path: Path
    bytes_per_second: float
    block_bytes: int
    seed: int = 0
    """Changes the names of all blocks; engines with different seeds share none."""
    free_at: float = 0.0

    def file(self, block: BlockHash) -> str:
        """Return the file of a block, in the layout of vLLM's FileMapper."""
        name = f"{(block ^ self.seed) & (2**64 - 1):016x}"
        return f"{self.path}/{name[:3]}/{name[3:5]}_g0/{name}.bin"

    def has(self, block: BlockHash) -> bool:
        """Return whether the block is there, written by this engine or by another."""
        return os.path.exists(self.file(block))

    def store(self, block: BlockHash) -> bool:
        """Write a block; return whether it is new."""
        file = self.file(block)
        try:
            number = os.open(file, _NEW_FILE)
        except FileExistsError:
            return False
        except FileNotFoundError:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            return self.store(block)
        os.ftruncate(number, self.block_bytes)
        os.close(number)
        return True


@dataclass
class Load:
    """Blocks of a prompt in the tiers, after those in the accelerator's memory."""

    blocks: tuple[BlockHash, ...]
    folders: tuple[Folder | None, ...]
    """Where each block is; None for main memory."""

    @property
    def source(self) -> str:
        """Return the outermost tier, which vLLM counts all of the blocks for."""
        return HOST if all(folder is None for folder in self.folders) else DISK


class KvTiers:
    """The tiers of one engine.

    Args:
        blocks: number of blocks in main memory.
        block_bytes: size of a block.
        link: bytes per second between main memory and the accelerator.
        folders: lower tiers, from the fastest.
    """

    def __init__(
        self, blocks: int, block_bytes: int, link: float, folders: Sequence[Folder] = ()
    ) -> None:
        self.blocks = blocks
        self.block_bytes = block_bytes
        self.loaded_bytes = self.stored_bytes = 0
        self.load_seconds = self.store_seconds = 0.0
        self._link = link
        self._link_free_at = 0.0
        self._folders = tuple(folders)
        self._memory: OrderedDict[BlockHash, None] = OrderedDict()

    def store(self, block: BlockHash) -> None:
        """Store a computed block in all tiers."""
        if block not in self._memory:
            self.stored_bytes += self.block_bytes
            self.store_seconds += self.block_bytes / self._link
        self._remember(block)
        for folder in self._folders:
            folder.store(block)

    def find(self, blocks: Sequence[BlockHash]) -> Load:
        """Return the leading blocks of a sequence that are in any tier."""
        found: list[Folder | None] = []
        for block in blocks:
            if block in self._memory:
                found.append(None)
                continue
            folder = next((each for each in self._folders if each.has(block)), None)
            if folder is None:
                break
            found.append(folder)
        return Load(tuple(blocks[: len(found)]), tuple(found))

    def load(self, load: Load, now: float) -> float:
        """Read blocks; return when they are in the accelerator's memory. Reads wait in line."""
        ready = now
        for folder in self._folders:
            count = sum(each is folder for each in load.folders)
            if count:
                seconds = count * self.block_bytes / folder.bytes_per_second
                folder.free_at = max(now, folder.free_at) + seconds
                ready = max(ready, folder.free_at)
        for block in load.blocks:
            self._remember(block)
        size = len(load.blocks) * self.block_bytes
        self.loaded_bytes += size
        self.load_seconds += size / self._link
        self._link_free_at = max(ready, self._link_free_at) + size / self._link
        return self._link_free_at + _LOOKUP_SECONDS

    def _remember(self, block: BlockHash) -> None:
        self._memory[block] = None
        self._memory.move_to_end(block)
        while len(self._memory) > self.blocks:
            self._memory.popitem(last=False)


def has_tiers(flags: argparse.Namespace) -> bool:
    """Return whether flags ask for vLLM's own tiers."""
    return _connector(flags) == CONNECTOR


def _connector(flags: argparse.Namespace) -> str:
    """Return the name of the connector, or "". A size replaces the name, as in config/vllm.py."""
    if flags.kv_offloading_size is not None:
        return "LMCacheMPConnector" if flags.kv_offloading_backend == "lmcache" else CONNECTOR
    config: Mapping[str, Any] = flags.kv_transfer_config or {}
    return str(config.get("kv_connector") or "")


def tiers_of(deployment: Deployment) -> KvTiers | None:
    """Return the tiers of an engine, or None if its flags ask for none.

    Raises:
        EngineError: vLLM would not start with the flags.
    """
    flags = deployment.flags
    if _connector(flags).startswith("LMCache"):
        raise EngineError(NO_LMCACHE)
    if not has_tiers(flags):
        return None
    config: Mapping[str, Any] = flags.kv_transfer_config or {}
    extra: Mapping[str, Any] = config.get("kv_connector_extra_config") or {}
    size = extra.get("cpu_bytes_to_use")
    if flags.kv_offloading_size is not None:
        size = int(flags.kv_offloading_size * 2**30)
    if not size:
        raise EngineError(
            "Exception: cpu_bytes_to_use must be specified in kv_connector_extra_config"
        )
    chip = deployment.surroundings.accelerator
    if chip.kind == "tpu":
        raise EngineError(
            "Exception: CPU Offloading is currently only supported on CUDA-alike and XPU GPUs"
        )
    block_bytes = deployment.block_size * kv_token_bytes(deployment.shape, deployment.kv_bits)
    folders: list[Folder] = []
    if extra.get("spec_name") == "TieringOffloadingSpec":
        given: Sequence[Mapping[str, Any]] = extra.get("secondary_tiers", [])
        folders = [_folder(deployment, tier, block_bytes) for tier in given]
    link = link_bytes_per_second(chip.name, deployment.chips)
    return KvTiers(int(size) // block_bytes, block_bytes, link, folders)


def _folder(deployment: Deployment, tier: Mapping[str, Any], block_bytes: int) -> Folder:
    if tier.get("type") != "fs":
        raise EngineError(f"ValueError: Unknown secondary tier type: {tier.get('type')!r}.")
    root = str(tier["root_dir"])
    here = deployment.surroundings
    fields = {
        "block": deployment.block_size,
        "devices": deployment.devices,
        "dtype": deployment.kv_bits,
        "model": deployment.model,
    }
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:12]
    # without a volume, as in a container of its own: gone with the process
    base = here.host_path(root) or Path(tempfile.mkdtemp(prefix="kv-tier-"))
    path = base / f"{deployment.model.replace('/', '_')}_{digest}_r0"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(f"{type(error).__name__}: {error}") from error
    is_shared = PurePosixPath(root).is_relative_to(KV_SHARED)
    if not is_shared:
        rate = disk_bytes_per_second(disks_of(here.accelerator.name, deployment.chips))
    elif here.share_mib_per_s is None:
        rate = share_bytes_per_second("zonal", _SHARE_GIB)
    else:
        rate = here.share_mib_per_s * 2**20
    return Folder(path, rate, block_bytes, _hash_seed(deployment))


def _hash_seed(deployment: Deployment) -> int:
    """Return the seed of block hashes, as vLLM 0.32.0 (v1/core/kv_cache_utils.py).

    It is the same everywhere for SHA-256, and random for xxHash, unless the environment sets it.
    """
    given = deployment.surroundings.hash_seed
    if given is not None:
        return crc32(given.encode())
    is_secret = str(deployment.flags.prefix_caching_hash_algo).startswith("xxhash")
    return secrets.randbits(64) if is_secret else 0
