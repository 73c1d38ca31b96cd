"""How many machines of a rung a region starts with, and may grow to."""

from gke_inference.catalogue.rungs import Rung
from infra.plan import RegionPlan, ServedModel


def replicas_on(region: RegionPlan, rung: Rung) -> tuple[int, int]:
    """Return the machines that models start with on a rung, and the most that they may ask for.

    A model starts on its first rung of a kind; further down a rung takes what the ones above lack.
    """
    least = most = 0
    for served in region.served:
        for role in served.roles:
            same = [at for at, each in role.rungs.items() if _is_same(each, rung)]
            if not same:
                continue
            most += role.maximum * rung.hosts
            if min(same) == _first(role, rung.kind):
                least += role.minimum * rung.hosts
    return least, most


def _first(served: ServedModel, kind: str) -> int | None:
    of_kind = served.capacity.of_kind(kind) if len(served.capacity.classes) > 1 else served.rungs
    return min(of_kind, default=None)


def _is_same(one: Rung, other: Rung) -> bool:
    def key(rung: Rung) -> tuple[str, str, str | None, str | None]:
        return rung.machine_type, rung.provisioning, rung.reservation, rung.topology

    return key(one) == key(other)
