"""Objects of the twin's cloud that gateways name: reserved addresses and security policies."""

from twin.cluster.gateway.translation.objects import NamedAddress
from twin.host.paths import TwinPaths
from twin.providers.gcp.resources.security_policies import ArmorRule, enforced
from twin.wire.property_values import last_segment
from twin.world import store

ADDRESS_TYPES = (
    "gcp:compute/address:Address",
    "gcp:compute/globalAddress:GlobalAddress",
)


def address_named(paths: TwinPaths, region: str, name: str) -> NamedAddress | None:
    """Return a reserved address by name, or None if it does not exist.

    Args:
        paths: Files of the twin.
        region: Region of the Gateway; regional addresses of other regions are not found.
        name: Name of the address in the Gateway.
    """
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


_POLICY = "gcp:compute/regionSecurityPolicy:RegionSecurityPolicy"


def armor_named(paths: TwinPaths, project: str, region: str, name: str) -> tuple[ArmorRule, ...]:
    """Return the rules of a region's policy; empty if there is no such policy."""
    if not paths.cloud_db.exists():
        return ()
    path = f"projects/{project}/regions/{region}/securityPolicies/{name}"
    found = store.Store(paths.cloud_db).get(_POLICY, path)
    return () if found is None else enforced(found.inputs)
