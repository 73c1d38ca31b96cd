"""Reserved addresses of the cloud, by name."""

from twin.cluster.gateway.translation.objects import NamedAddress
from twin.host.paths import TwinPaths
from twin.wire.property_values import last_segment

ADDRESS_TYPES = (
    "gcp:compute/address:Address",
    "gcp:compute/globalAddress:GlobalAddress",
)


def lookup(paths: TwinPaths, region: str, name: str) -> NamedAddress | None:
    """Return a reserved address by name, or None if it does not exist.

    Args:
        paths: Files of the twin.
        region: Region of the Gateway; regional addresses of other regions are not found.
        name: Name of the address in the Gateway.
    """
    from twin.world import store  # noqa: PLC0415  (a Gateway without such an address needs no cloud)

    for each in store.list_resources(paths, ADDRESS_TYPES):
        if each.name != name or each.status == "creating":
            continue
        found = each.outputs
        if last_segment(str(found.get("region") or region)) != region:
            continue
        is_inner = found.get("addressType") == "INTERNAL"
        tier = "" if is_inner else str(found.get("networkTier") or "PREMIUM")
        return NamedAddress(str(found["address"]), tier)
    return None
