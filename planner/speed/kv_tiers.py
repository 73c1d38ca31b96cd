"""Bandwidth of the tiers of KV cache below an accelerator's memory."""

import math
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue import accelerators as catalogue
from gke_inference.catalogue.data_file import read_table
from planner.fit.chips import WORDS

_FILE = Path(__file__).parents[1] / "data" / "kv_tiers.yaml"
_MIB = 2**20
_GIB_PER_TIB = 1024
_LARGE_GIB = 10 * _GIB_PER_TIB


def link_bytes_per_second(gke_type: str, chips: int) -> float:
    """Return how fast main memory reaches all chips of an engine, each over its own link."""
    data = _document()
    each = data["link_gb_per_s"].get(gke_type, data["link_default_gb_per_s"])
    return each * 1e9 * data["reached"] * chips


def disk_bytes_per_second(disks: int) -> float:
    """Return how fast a number of local SSDs is read; of one if there is none, as on the twin."""
    return _document()["local_ssd"]["read_gb_per_s"] * 1e9 * max(1, disks)


def share_bytes_per_second(tier: str, capacity_gib: int) -> float:
    """Return how fast a Filestore instance is read, by all of its clients together."""
    of = _document()["filestore"]
    name = "zonal" if tier == "regional" and capacity_gib >= _LARGE_GIB else tier
    entry = of[name]
    if "read_mib_per_s" in entry:
        return entry["read_mib_per_s"] * _MIB
    return entry["read_mib_per_s_per_tib"] * _MIB * capacity_gib / _GIB_PER_TIB


def lustre_bytes_per_second(mb_per_second_per_tib: int, capacity_gib: int) -> float:
    """Return how fast a Managed Lustre instance is read, by all of its clients together."""
    return mb_per_second_per_tib * 1e6 * capacity_gib / _GIB_PER_TIB


def network_bytes_per_second(machine_type: str) -> float:
    """Return how fast a machine can read from shares; infinity if its network is not known."""
    gbit = _document()["network"]["gbit_per_s"].get(machine_type, math.inf)
    return gbit * 1e9 / 8


def disks_of(gke_type: str, chips: int) -> int:
    """Return the local SSDs of a machine with that many chips; 0 if it has none, or is unknown."""
    if gke_type not in WORDS:
        return 0
    machines = catalogue.accelerator(WORDS[gke_type]).machines
    return next((machine.local_ssds for machine in machines if machine.chips >= chips), 0)


@cache
def _document() -> Any:
    return read_table(_FILE)
