"""Rules of storage that hold for stacks and for components."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from gke_inference.catalogue.files.buckets import MINIMUM_DAYS, WORDS, place_of
from gke_inference.catalogue.files.filestore import TIERS
from gke_inference.catalogue.files.lustre import SIZES
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join

from .settings import ArchiveSettings, ColderAges, FilestoreTier, LustreTier

STANDARD_CLASS: Final = "standard"
"""Storage class of new objects."""


_SHORTEST_SOFT_DELETE_DAYS: Final = 7  # https://cloud.google.com/storage/docs/soft-delete


def class_steps(ages: ColderAges) -> list[tuple[str, int]]:
    """Return (storage class, age in days from which it applies), in the order of the classes."""
    by_class = {
        "nearline": ages.nearline_after_days,
        "coldline": ages.coldline_after_days,
        "archive": ages.archive_after_days,
    }
    found = [(cold, by_class[cold]) for cold in MINIMUM_DAYS]
    return [(STANDARD_CLASS, 0), *((cold, age) for cold, age in found if age is not None)]


def check_classes(
    where: str, ages: ColderAges, field: str, delete: int | None
) -> Iterator[InputError]:
    """Yield the problems of the ages at which objects move to colder classes and are deleted.

    Args:
        where: Path of the settings.
        ages: The settings.
        field: Field of the age at which objects are deleted.
        delete: That age in days; None: they are kept.
    """
    found = class_steps(ages)
    for (_, before), (cold, age) in pairwise(found):
        if age <= before:
            path = join(where, f"{cold}_after_days")
            yield InputError(path, f"must be above {before}, the age of the class before it", age)
    if delete is None:
        return
    last, age = found[-1]
    least = max(age + 1, MINIMUM_DAYS[last] if last != STANDARD_CLASS else 1)
    if delete < least:
        note = "" if last == STANDARD_CLASS else f": {last} is billed for {MINIMUM_DAYS[last]} days"
        yield InputError(join(where, field), f"must be at least {least}", delete, note)


def check_soft_delete(where: str, days: int) -> Iterator[InputError]:
    """Yield the problem of a time for which Cloud Storage does not keep deleted objects.

    Args:
        where: Path of the settings.
        days: The time.
    """
    if 0 < days < _SHORTEST_SOFT_DELETE_DAYS:
        yield InputError(join(where, "soft_delete_days"), "must be 0 or 7 to 90", days)


def check_archive(where: str, archive: ArchiveSettings) -> Iterator[InputError]:
    """Yield the problems of an archive: its location, and the ages of its objects."""
    place = place_of(archive.location)
    if place is None:
        yield InputError(join(where, "location"), f"must be {WORDS}", archive.location)
    elif archive.turbo and place.kind != "dual-region":
        rule = f"must be false: {archive.location} is a {place.kind}, not a dual-region"
        yield InputError(join(where, "turbo"), rule, archive.turbo)
    yield from check_soft_delete(where, archive.soft_delete_days)
    delete, kept = archive.delete_after_days, archive.retention_days
    yield from check_classes(where, archive, "delete_after_days", delete)
    if delete is not None and kept is not None and delete < kept:
        rule = f"must be at least retention_days ({kept})"
        yield InputError(join(where, "delete_after_days"), rule, delete)


def check_filestore(where: str, tier: FilestoreTier, capacity_gib: int) -> Iterator[InputError]:
    """Yield the problem of a capacity that instances of a tier cannot have.

    Args:
        where: Path of the capacity.
        tier: The tier.
        capacity_gib: The capacity.
    """
    sizes = TIERS[tier.value].sizes
    if not sizes.allow(capacity_gib):
        yield InputError(where, f"must be {sizes.words} for tier {tier.value}", capacity_gib)


def check_lustre(where: str, tier: LustreTier, capacity_gib: int) -> Iterator[InputError]:
    """Yield the problem of a capacity that instances of a tier cannot have.

    Args:
        where: Path of the capacity.
        tier: The tier.
        capacity_gib: The capacity.
    """
    sizes = SIZES[tier]
    if not sizes.allow(capacity_gib):
        rule = f"must be {sizes.words} for {tier} MB/s per TiB"
        yield InputError(where, rule, capacity_gib)
