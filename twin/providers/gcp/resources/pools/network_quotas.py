"""Quotas of networks and subnets: those of a program, and those that a node pool brings."""

from collections.abc import Callable

from twin.providers.gcp.schema import Resource
from twin.wire.property_values import CloudError, Json
from twin.world.capacity import World
from twin.world.network_quota import QUOTAS, Profile, over_network_quota, pool_profile
from twin.world.store import Store


def check_network_quota(
    known: Resource, inputs: Json, project: str, store: Store, world: Callable[[], World]
) -> None:
    """Refuse networks beyond a quota (rule quota.networks).

    Raises:
        CloudError: In Google's wording.
    """
    new: Profile | str | None = QUOTAS.get(known.token)
    if new is None and known.kind == "container/nodePool":
        new = pool_profile(inputs)
    problem = None if new is None else over_network_quota(world(), store, project, new)
    if problem is not None:
        raise CloudError(403, problem, "quotaExceeded")
