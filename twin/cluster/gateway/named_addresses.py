"""Reserved addresses of the cloud, by name."""

from twin.cluster.gateway.translation.objects import NamedAddress
from twin.host.paths import TwinPaths

ADDRESS_TYPES = (
    "gcp:compute/address:Address",
    "gcp:compute/globalAddress:GlobalAddress",
)


def lookup(paths: TwinPaths, name: str) -> NamedAddress | None:
    """Return a reserved address of the cloud, or None where there is none of the name."""
    from twin.world import store  # noqa: PLC0415  (a Gateway without such an address needs no cloud)

    for kind in ADDRESS_TYPES:
        found = store.find_by_name(kind, name, paths)
        if found is not None:
            is_inner = found.get("addressType") == "INTERNAL"
            tier = "" if is_inner else str(found.get("networkTier") or "PREMIUM")
            return NamedAddress(str(found["address"]), tier)
    return None
