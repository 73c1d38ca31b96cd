"""Ages and storage classes of an archive's objects."""

from gke_inference.catalogue.files.buckets import MINIMUM_DAYS
from infra.stack import Archive, PersonalImages

STANDARD = "standard"
"""Storage class of new objects."""


def steps(archive: Archive | PersonalImages) -> list[tuple[str, int]]:
    """Return (storage class, age in days from which it applies), in the order of the classes."""
    ages = {
        "nearline": archive.nearline_after_days,
        "coldline": archive.coldline_after_days,
        "archive": archive.archive_after_days,
    }
    found = [(cold, ages[cold]) for cold in MINIMUM_DAYS]
    return [(STANDARD, 0), *((cold, age) for cold, age in found if age is not None)]
