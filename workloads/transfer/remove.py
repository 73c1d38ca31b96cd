"""Removes a version from a bucket, the manifest first: what is half gone is never served."""

from functools import partial

from workloads.transfer.store import Store
from workloads.transfer.versions import Home, read_current
from workloads.transfer.work import Crew


def contents(store: Store, home: Home, version: str) -> list[str]:
    """Return the names of a version's objects and of its parts, the manifest first."""
    names = {
        *store.objects(home.bucket, home.object(version, "")),
        *store.objects(home.bucket, home.parts(version)),
    }
    manifest = home.manifest(version)
    return sorted(names, key=lambda name: (name != manifest, name))


def remove(store: Store, home: Home, version: str, crew: Crew) -> int:
    """Remove a version, also as the current one; return the number of objects removed.

    Raises:
        TransferError: An object could not be removed; the same command again continues.
    """
    names = contents(store, home, version)
    if not names:
        return 0
    if read_current(store, home) == version:
        store.delete(home.bucket, home.current)
    first, *others = names
    store.delete(home.bucket, first)
    crew.run([partial(store.delete, home.bucket, name) for name in others])
    return len(names)
