"""Locations and storage classes of Cloud Storage buckets.

Sources, stored copies read 2026-11-23: docs.cloud.google.com/storage/docs/locations (locations) and
docs.cloud.google.com/storage/docs/storage-classes (minimum storage durations).
"""

from dataclasses import dataclass
from typing import Final

MULTI_REGIONS: Final = ("asia", "eu", "us")
DUAL_REGIONS: Final = ("asia1", "eur4", "eur5", "eur7", "eur8", "nam4")
"""Predefined pairs of regions."""
MINIMUM_DAYS: Final = {"nearline": 30, "coldline": 90, "archive": 365}
"""Storage classes, warmest first, with the days that each object is billed for at least. The days
that an object had another class count."""
REGIONS: Final = frozenset(
    """
    africa-south1 asia-east1 asia-east2 asia-northeast1 asia-northeast2 asia-northeast3 asia-south1
    asia-south2 asia-southeast1 asia-southeast2 asia-southeast3 australia-southeast1
    australia-southeast2 europe-central2 europe-north1 europe-north2 europe-southwest1 europe-west1
    europe-west10 europe-west12 europe-west2 europe-west3 europe-west4 europe-west6 europe-west8
    europe-west9 me-central1 me-central2 me-west1 northamerica-northeast1 northamerica-northeast2
    northamerica-south1 southamerica-east1 southamerica-west1 us-central1 us-east1 us-east4 us-east5
    us-south1 us-west1 us-west2 us-west3 us-west4
    """.split()  # noqa: SIM905 - a list of words reads better
)
"""Regions of Google Cloud: those with a price in `platform_prices.csv`, and those of Japan and
Korea, for which its source has few prices."""
_PAIRS_WITH_KEYS_OF_EUROPE: Final = ("eur5", "eur7", "eur8")
"""Predefined pairs whose keys are in the multi-region; the others have keys of their own."""
_OUTSIDE_EU: Final = ("europe-west2", "europe-west6")  # London and Zürich
_SOUTH_ASIA: Final = "asia-south"  # pairs of India have a code of their own


@dataclass(frozen=True)
class Place:
    """Where a bucket stores its objects."""

    kind: str
    """`region`, `dual-region` or `multi-region`."""
    location: str
    """Location in the API, in lower case."""
    regions: tuple[str, ...] = ()
    """The two regions of a configurable dual-region."""


def bucket_in(weights: str) -> str | None:
    """Return the bucket that a path of weights names, or None if it is in the model bucket."""
    return weights.split("/")[2] if weights.startswith("gs://") else None


def place_of(text: str) -> Place | None:
    """Return the place of a location, or None if there is no such place.

    Args:
        text: A region, a multi-region, a predefined dual-region, or REGION+REGION.
    """
    if text in MULTI_REGIONS:
        return Place("multi-region", text)
    if text in DUAL_REGIONS:
        return Place("dual-region", text)
    if text in REGIONS:
        return Place("region", text)
    first, _, second = text.partition("+")
    codes = {_code(first), _code(second)}
    code = codes.pop()
    if codes or code is None or first == second:
        return None
    return Place("dual-region", code, (first, second))


def key_location(place: Place) -> str:
    """Return the location that a Cloud KMS key must have to encrypt a bucket.

    Most dual-regions take keys of their multi-region, and Cloud KMS calls that of Europe `europe`
    (docs.cloud.google.com/storage/docs/encryption/customer-managed-keys, section Restrictions, and
    docs.cloud.google.com/kms/docs/locations, stored copies read 2026-11-23).

    Args:
        place: Where the bucket stores its objects.
    """
    if place.location == "eu" or place.location in _PAIRS_WITH_KEYS_OF_EUROPE:
        return "europe"
    return place.location


WORDS: Final = (
    f"a region, {', '.join(MULTI_REGIONS)}, {', '.join(DUAL_REGIONS)}, or two regions of one "
    "multi-region as REGION+REGION"
)
"""The locations as text."""


def _code(region: str) -> str | None:
    """Return the multi-region in which a region can be paired with another."""
    if region not in REGIONS:
        return None
    continent = region.partition("-")[0]
    if continent == "europe":
        return None if region in _OUTSIDE_EU else "eu"
    if region.startswith(_SOUTH_ASIA) and not region.startswith("asia-southeast"):
        return None
    return continent if continent in ("asia", "us") else None
