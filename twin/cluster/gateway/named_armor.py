"""Cloud Armor policies that backends name, in the twin's cloud."""

from twin.host.paths import TwinPaths
from twin.providers.gcp.resources.security_policies import Denial, denials
from twin.world.store import Store

_POLICY = "gcp:compute/regionSecurityPolicy:RegionSecurityPolicy"


def lookup(paths: TwinPaths, project: str, region: str, name: str) -> tuple[Denial, ...]:
    """Return what a region's policy refuses; empty if there is no such policy."""
    if not paths.cloud_db.exists():
        return ()
    path = f"projects/{project}/regions/{region}/securityPolicies/{name}"
    found = Store(paths.cloud_db).get(_POLICY, path)
    return () if found is None else tuple(denials(found.inputs))
