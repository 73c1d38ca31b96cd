"""Availability of an accelerator in a region, and the failure mode of each provisioning."""

from functools import cache

from gke_inference.catalogue.hardware import hardware, node_zones

_SAID = {
    "reservation": "there for as long as the reservation; paid whether used or not",
    "calendar": "there from the reservation's first day to its last; asked for ahead",
    "on-demand": "at once or not at all",
    "flex-start": "queues 3 min at best; a node lives 7 days at most; preemptible quota",
    "spot": "taken back at 30 s notice; keep a floor that is not spot",
}


def availability(provisioning: str) -> str:
    """Return how a provisioning can fail (docs.cloud.google.com, google/skills @1af7775).

    Args:
        provisioning: One of `accelerators.PROVISIONING`.
    """
    return _SAID[provisioning]


@cache
def notes(word: str, region: str, provisioning: str) -> tuple[str, ...]:
    """Return notes on the availability of an accelerator in a region with a provisioning.

    Args:
        word: Accelerator, or machine family of a rung without one.
        region: Region.
        provisioning: One of `accelerators.PROVISIONING`.
    """
    zones = node_zones(word, region, provisioning)
    found = [
        availability(provisioning),
        f"zones {', '.join(zone.rpartition('-')[2] for zone in zones)}"
        if zones
        else "zones not listed (docs/provisioning-types.md)",
    ]
    if minimum := hardware(word).gke_minimum:
        found.append(f"GKE {minimum['standard']} or later")
    return tuple(found)
