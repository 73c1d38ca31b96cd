"""Prices of everything except accelerators, from data/platform_prices.csv.

Each row is one item in one region, or in all regions if the region is empty. An item that is not
listed has no price, never a guess.
"""

import csv
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from .data_file import UNVERIFIED

_FILE = Path(__file__).parent / "data" / "platform_prices.csv"
_SIZED = re.compile(r"(?P<family>[a-z0-9]+-[a-z]+)-(?P<vcpus>\d+)")


@dataclass(frozen=True)
class UnitPrice:
    """A unit price in US dollars, and its reliability."""

    usd: float
    per: str
    """The unit: `hour`, `GiB`, `GiB-month`, `MiB/s-month` or `million`."""
    source: str
    date: str
    """Date of the source: a day, or only a year."""
    confidence: str
    """As in `prices.Price`."""

    @property
    def is_verified(self) -> bool:
        """Whether the price was checked against a source."""
        return self.confidence != UNVERIFIED


def unit_price(item: str, region: str) -> UnitPrice | None:
    """Return the price of an item in a region, or None if unknown.

    Args:
        item: Such as `cluster-fee` or `gcs-standard`.
        region: Region. A price for all regions applies if it has none of its own.
    """
    table = _table()
    return table.get((item, region)) or table.get((item, ""))


def machine_price(
    machine_type: str, region: str, years: int | None = None, *, is_spot: bool = False
) -> UnitPrice | None:
    """Return the hourly price of a machine without accelerators, or None if unknown.

    Machines of one family and shape, such as `e2-standard`, cost in proportion to their vCPUs,
    since memory is proportional too.

    Args:
        machine_type: Machine type.
        region: Region.
        years: Term of a commitment, or None for on-demand.
        is_spot: Whether it is a Spot VM, whose price Google changes up to once a day.
    """
    term = " spot" if is_spot else "" if years is None else f" committed-{years}y"
    if (own := unit_price(machine_type + term, region)) is not None:
        return own
    wanted = _SIZED.fullmatch(machine_type)
    if wanted is None:
        return None
    for item in _machines():
        listed = _SIZED.fullmatch(item)
        if listed is None or listed["family"] != wanted["family"]:
            continue
        if (like := unit_price(item + term, region)) is not None:
            times = int(wanted["vcpus"]) / int(listed["vcpus"])
            return replace(like, usd=like.usd * times, confidence="derived")
    return None


def run_instance_price(
    name: str, region: str, vcpus: int, memory_gib: int, *, is_zonal: bool
) -> UnitPrice | None:
    """Return the hourly price of a Cloud Run instance with a GPU, or None if a part has none.

    Instance-based billing, which GPUs require, charges GPU, vCPUs and memory from the start of an
    instance to its end, idle or not, and no fee for requests. The price leaves the monthly free
    amount of vCPUs and memory out.
    """
    gpu = unit_price(f"cloud-run-{name}{'-zonal' if is_zonal else ''}", region)
    host = run_host_price(region, vcpus, memory_gib)
    if gpu is None or host is None:
        return None
    return replace(gpu, usd=gpu.usd + host.usd)


def run_host_price(region: str, vcpus: int, memory_gib: int) -> UnitPrice | None:
    """Return the hourly price of a Cloud Run instance without a GPU; see `run_instance_price`."""
    cpu, memory = unit_price("cloud-run-vcpu", region), unit_price("cloud-run-gib", region)
    if cpu is None or memory is None:
        return None
    return replace(cpu, usd=vcpus * cpu.usd + memory_gib * memory.usd)


_MEMORY_GIB: Final = {"e2-standard": 4.0, "n1-standard": 3.75, "n2-standard": 4.0}
"""Memory for each vCPU (docs.cloud.google.com/compute/docs/general-purpose-machines)."""


def dataflow_worker_price(machine_type: str, region: str, disk_gib: int) -> UnitPrice | None:
    """Return the hourly price of a streaming worker, or None if a part of it has none.

    Dataflow charges vCPUs, memory and disk in place of Compute Engine, and what Streaming Engine
    processes beside them (cloud.google.com/dataflow/pricing).
    """
    size = _SIZED.fullmatch(machine_type)
    if size is None or size["family"] not in _MEMORY_GIB:
        return None
    vcpus = int(size["vcpus"])
    amounts = {
        "dataflow-vcpu": vcpus,
        "dataflow-gib": vcpus * _MEMORY_GIB[size["family"]],
        "dataflow-disk-gib": disk_gib,
    }
    found = {item: unit_price(item, region) for item in amounts}
    usd = sum(price.usd * amounts[item] for item, price in found.items() if price is not None)
    first = found["dataflow-vcpu"]
    return None if first is None or None in found.values() else replace(first, usd=usd)


@cache
def _machines() -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for item, _ in _table() if _SIZED.fullmatch(item)))


@cache
def _table() -> dict[tuple[str, str], UnitPrice]:
    with _FILE.open(encoding="utf-8") as file:
        return {
            (row["item"], row["region"]): UnitPrice(
                float(row["usd"]), row["per"], row["source"], row["date"], row["confidence"]
            )
            for row in csv.DictReader(file)
        }
