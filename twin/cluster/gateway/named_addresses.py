"""Reserved addresses of the cloud, by name."""

from twin.host.paths import TwinPaths

ADDRESS_TYPES = (
    "gcp:compute/address:Address",
    "gcp:compute/globalAddress:GlobalAddress",
)


def lookup(paths: TwinPaths, name: str) -> str | None:
    """Return the address that a reserved address stands for, or None where there is none."""
    from twin.world import store  # noqa: PLC0415  (a Gateway without such an address needs no cloud)

    for kind in ADDRESS_TYPES:
        found = store.find_by_name(kind, name, paths)
        if found is not None:
            return str(found["address"])
    return None
