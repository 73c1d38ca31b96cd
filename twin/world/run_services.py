"""Where the Cloud Run services of a twin run."""

from dataclasses import asdict, dataclass
from typing import Final
from urllib.parse import urlsplit

from twin.world.store import Store

SERVICE: Final = "gcp:cloudrunv2/service:Service"


@dataclass(frozen=True)
class Place:
    """The instance of a service."""

    host: str
    port: int
    revision: int
    timeout_seconds: float
    """Maximum duration of a request."""


def note_place(store: Store, resource_id: str, place: Place) -> None:
    """Keep where a service runs."""
    store.note(f"instance of {resource_id}", asdict(place))


def place_of(store: Store, resource_id: str) -> Place | None:
    """Return where a service runs; None if it is no process."""
    found = store.fact(f"instance of {resource_id}")
    return None if found is None else Place(**found)


def place_at(store: Store, host: str) -> Place | None:
    """Return where the service of a host name (`NAME-NUMBER.REGION.run.app`) runs."""
    if not host.endswith(".run.app"):
        return None
    for record in store.find(SERVICE):
        if urlsplit(str(record.outputs.get("uri") or "")).hostname == host:
            return place_of(store, record.id)
    return None
