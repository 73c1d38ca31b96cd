"""Arguments for rungs, shared by capacity and model servers."""

from gke_inference.catalogue.rungs import RungArgs
from infra.plan import RegionCapacity
from infra.plan.names import pool_name


def rungs(capacity: RegionCapacity, kind: str = "any") -> list[RungArgs]:
    """Return a capacity's rungs in a region, of one kind or of `any`."""
    made: list[RungArgs] = []
    for at, args in capacity.arguments.items():
        if kind not in ("any", capacity.rungs[at].kind):
            continue
        if capacity.settings.node_pools is None:
            made.append(args)
        else:
            made.append({**args, "node_pools": [pool_name(capacity.name, at)]})
    return made
