"""Hourly prices of rungs, from data/prices.csv and for processors alone from `platform_prices`.

Unknown prices are None.

A GPU machine's price is accelerators plus host; a TPU chip's price includes its host. The price is
`None` if a part is unknown, never a guess. Reservations cost as much as on-demand. Calendar
reservations of GPUs cost as much as flex-start (one price list of the Dynamic Workload Scheduler);
those of TPUs, and commitments for TPUs, have published discounts from the on-demand price.
"""

import csv
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from .accelerators import PROVISIONING, accelerator, machine
from .data_file import UNVERIFIED
from .hardware import CPU, hardware
from .platform_prices import UnitPrice, machine_price

if TYPE_CHECKING:  # rungs need the SDK, prices do not
    from .rungs import Rung

_FILE = Path(__file__).parent / "data" / "prices.csv"
_LISTED_AS = {"reservation": "on-demand", "calendar": "flex-start"}
_TRUST = ("documented", "secondary", "derived", UNVERIFIED)
_TPU_DISCOUNTS = {"calendar": 0.30, "committed-1y": 0.30, "committed-3y": 0.55}
"""Discount from the on-demand price of a TPU chip: up to 30 % in calendar mode, 30 to 55 % with a
commitment of one to three years (docs.cloud.google.com/tpu/docs/about-tpu-reservations)."""
_DISCOUNTS_SOURCE = "docs.cloud.google.com/tpu/docs/about-tpu-reservations, of the on-demand price"
COMMITTED_YEARS = (1, 3)
"""Terms of committed use discounts, in years."""
COMMITTABLE = ("on-demand", "reservation")
"""Provisioning models with committed use discounts. Spot and flex-start VMs have their own prices.
Known, not re-read in Google's pages."""


@dataclass(frozen=True)
class Price:
    """A price in US dollars per hour, and its reliability."""

    usd_per_hour: float
    source: str
    date: str
    """Date of the source: a day, or only a year."""
    confidence: str
    """`documented` (a copy of Google's page), `secondary` (a public catalog), `derived` (arithmetic
    on one) or `unverified`."""
    lacks_host: bool = False
    """Whether it covers only the accelerators, since no price of their machine is published."""

    @property
    def is_verified(self) -> bool:
        """Whether the price was checked against a source."""
        return self.confidence != UNVERIFIED


@dataclass(frozen=True)
class _Row:
    part: str
    machine_type: str
    per: str
    price: Price


def rung_price(rung: "Rung", region: str, *, allow_partial: bool = False) -> Price | None:
    """Return the price of one replica on a rung, including all hosts."""
    one = price(
        rung.accelerator,
        region,
        rung.provisioning,
        machine_type=rung.machine_type,
        allow_partial=allow_partial,
    )
    return None if one is None else _times(one, rung.hosts)


def committed_price(rung: "Rung", region: str, years: int) -> Price | None:
    """Return the price of one replica on a rung with a commitment, including all hosts.

    Args:
        rung: Rung of the VMs.
        region: Region.
        years: One of `COMMITTED_YEARS`.
    """
    one = committed_machine_price(rung.accelerator, region, years, machine_type=rung.machine_type)
    return None if one is None else _times(one, rung.hosts)


def _of_machine(listed: UnitPrice | None) -> Price | None:
    """Return the price of a machine without accelerators."""
    if listed is None:
        return None
    return Price(round(listed.usd, 5), listed.source, listed.date, listed.confidence)


def committed_machine_price(
    name: str, region: str, years: int, *, machine_type: str
) -> Price | None:
    """Return the price of one machine with its accelerators, if it has any, and a commitment.

    Args:
        name: Accelerator, or machine family of a rung without one.
        region: Region.
        years: One of `COMMITTED_YEARS`.
        machine_type: Machine type.
    """
    if hardware(name).kind == CPU:
        return _of_machine(machine_price(machine_type, region, years))
    term = f"committed-{years}y"
    rows = _table().get((name, region, term), ())
    found = _whole_machine(rows, name, machine_type)
    if found is None and accelerator(name).kind == "tpu":
        chips = machine(name, machine_type).chips
        found = _part(rows, "accelerator", name, machine_type, chips)
        if found is None:
            found = _discounted(name, region, term, machine_type=machine_type)
    return found


def price(
    name: str,
    region: str,
    provisioning: str,
    *,
    machine_type: str,
    allow_partial: bool = False,
) -> Price | None:
    """Return the price of one machine with its accelerators, if it has any.

    Args:
        name: Accelerator, or machine family of a rung without one.
        region: Region.
        provisioning: One of `accelerators.PROVISIONING`.
        machine_type: Machine type.
        allow_partial: Whether to return the accelerators' price if the host's is unknown.

    Raises:
        ValueError: The accelerator, the machine type or the provisioning does not exist.
    """
    if provisioning not in PROVISIONING:
        known = ", ".join(PROVISIONING)
        raise ValueError(f"provisioning must be one of {known}, got {provisioning!r}")
    if hardware(name).kind == CPU:
        is_spot = provisioning == "spot"
        return _of_machine(machine_price(machine_type, region, is_spot=is_spot))
    chips = machine(name, machine_type).chips
    if provisioning == "calendar" and accelerator(name).kind == "tpu":
        return _discounted(name, region, provisioning, machine_type=machine_type)
    listed = _LISTED_AS.get(provisioning, provisioning)
    rows = _table().get((name, region, listed), ())
    found = _whole_machine(rows, name, machine_type)
    if found is None:
        accelerators = _part(rows, "accelerator", name, machine_type, chips)
        if accelerators is None or accelerator(name).kind == "tpu":
            found = accelerators
        else:
            host = _part(rows, "host", name, machine_type, chips)
            if host is not None:
                found = _plus(accelerators, host)
            elif allow_partial:
                found = replace(accelerators, lacks_host=True)
    if found is None or provisioning != "calendar":
        return found
    return replace(found, confidence=_less_trusted(found.confidence, "derived"))


def _discounted(name: str, region: str, term: str, *, machine_type: str) -> Price | None:
    """Return the price of a TPU machine with the published discount of a term."""
    listed = price(name, region, "on-demand", machine_type=machine_type)
    if listed is None:
        return None
    return replace(
        _times(listed, 1 - _TPU_DISCOUNTS[term]),
        source=f"{listed.source}; {_DISCOUNTS_SOURCE}",
        confidence=_less_trusted(listed.confidence, "derived"),
    )


def _whole_machine(rows: tuple[_Row, ...], name: str, machine_type: str) -> Price | None:
    for row in rows:
        if row.part == "machine" and row.machine_type == machine_type:
            return row.price
    for row in rows:
        if row.part == "machine" and (share := _share(name, machine_type, row.machine_type)):
            return replace(_times(row.price, share), confidence="derived")
    return None


def _part(
    rows: tuple[_Row, ...], part: str, name: str, machine_type: str, chips: int
) -> Price | None:
    for row in rows:
        if row.part != part:
            continue
        like = row.machine_type in ("", machine_type)
        share = 1.0 if like else _share(name, machine_type, row.machine_type)
        if share is None:
            continue
        if row.per == "chip":
            return _times(row.price, chips)
        return _times(row.price, share)
    return None


def _share(name: str, wanted: str, listed: str) -> float | None:
    """Return the ratio of the wanted machine to the listed one, if equal in all respects."""
    if listed not in {entry.name for entry in accelerator(name).machines}:
        return None
    one, other = machine(name, wanted), machine(name, listed)
    if not one.vcpus or not other.vcpus or not one.ram_gib or not other.ram_gib:
        return None
    share = one.chips / other.chips
    is_even = one.vcpus == share * other.vcpus and one.ram_gib == share * other.ram_gib
    return share if is_even else None


def _times(one: Price, count: float) -> Price:
    return replace(one, usd_per_hour=round(one.usd_per_hour * count, 5))


def _plus(one: Price, other: Price) -> Price:
    return replace(
        one,
        usd_per_hour=round(one.usd_per_hour + other.usd_per_hour, 5),
        confidence=_less_trusted(one.confidence, other.confidence),
    )


def _less_trusted(one: str, other: str) -> str:
    return max(one, other, key=_TRUST.index)


@cache
def _table() -> dict[tuple[str, str, str], tuple[_Row, ...]]:
    table: dict[tuple[str, str, str], tuple[_Row, ...]] = {}
    with _FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = (row["accelerator"], row["region"], row["provisioning"])
            listed = Price(
                usd_per_hour=float(row["usd_per_hour"]),
                source=row["source"],
                date=row["date"],
                confidence=row["confidence"],
            )
            entry = _Row(row["part"], row["machine_type"], row["per"], listed)
            table[key] = (*table.get(key, ()), entry)
    return table
