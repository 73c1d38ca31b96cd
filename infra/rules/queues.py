"""Rules about queues: exclusive chips of one kind, and quotas that add up."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.node_placement import NodePlacement
from gke_inference.catalogue.problems import join, one_of
from gke_inference.queues.rules import check_quota, check_total
from infra.plan import CapacityByRegion, RegionCapacity, prefill_capacity
from infra.plan.capacity import queue_region
from infra.plan.storage import shared_folders
from infra.stack import Capacity, Layer, Platform, Provisioning, Queue

_LONGEST_QUEUE = 20


def check_queues(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield the problems of a platform's queues.

    Args:
        platform: The stack.
        by_region: Resolved capacity, by region.
    """
    if platform.queues and platform.layer is not Layer.ALL:
        rule = "must not be set when layer is platform or serving"
        yield InputError("queues", rule, len(platform.queues))
        return
    owners = dict(_owners(platform))
    made: dict[str, str] = {}
    writers: dict[str, tuple[str, str]] = {}
    for name, queue in platform.queues.items():
        where = join("queues", name)
        if len(name) > _LONGEST_QUEUE:
            yield InputError(where, f"must be a name of at most {_LONGEST_QUEUE} characters", name)
        for team in queue.teams:
            whole = f"{name}-{team}"
            if whole in made:
                rule = f"must not make the name {whole}, as {made[whole]} does"
                yield InputError(join(where, "teams", team), rule, team)
            made.setdefault(whole, join(where, "teams", team))
        problems = list(_check_flavors(platform, where, name, queue, owners))
        yield from problems
        if problems:
            continue
        region = queue_region(platform, queue)
        if region is None:
            rule = "must have a region with rungs of every capacity"
            yield InputError(join(where, "flavors"), rule, None)
        elif region not in platform.regions:
            yield one_of(join(where, "region"), region, list(platform.regions))
        else:
            here = [by_region[each.capacity][region] for each in queue.flavors]
            yield from _check_places(where, region, here)
            yield from _check_topology(where, queue, here)
            yield from _check_shares(where, queue, here)
            yield from _check_folders(platform, where, region, queue)
            yield from _check_writers(where, region, queue, writers)
            yield from _check_loans(where, queue, here)


def _owners(platform: Platform) -> Iterator[tuple[str, str]]:
    """Yield the capacities that models use, with the first model of each."""
    for name, model in reversed(platform.models.items()):
        for capacity in (model.capacity, prefill_capacity(model)):
            if capacity is not None:
                yield capacity, join("models", name)


def _check_flavors(
    platform: Platform, where: str, name: str, queue: Queue, owners: dict[str, str]
) -> Iterator[InputError]:
    for at, flavor in enumerate(queue.flavors):
        path = join(where, "flavors", at, "capacity")
        capacity = platform.capacity.get(flavor.capacity)
        if capacity is None:
            yield one_of(path, flavor.capacity, sorted(platform.capacity))
            continue
        if flavor.capacity in owners:
            rule = f"must be a separate capacity: {owners[flavor.capacity]} uses it"
            yield InputError(path, rule, flavor.capacity)
        owners.setdefault(flavor.capacity, join("queues", name))
        if any(rung.accelerator is None for rung in capacity.rungs):
            rule = "must have an accelerator on every rung: quotas of a queue are chips"
            yield InputError(path, rule, flavor.capacity)
        elif capacity.is_mixed:
            rule = "must have rungs of one kind: a job requests either TPU chips or GPUs"
            yield InputError(path, rule, flavor.capacity)
        if capacity.node_pools is not None and not flavor.queued:
            rule = "must not have node_pools: GKE creates the nodes of jobs"
            yield InputError(path, rule, flavor.capacity)
        if flavor.queued:
            yield from _check_queued(join(where, "flavors", at, "queued"), capacity)
    names = {flavor.capacity for flavor in queue.flavors}
    for team, share in queue.teams.items() if names <= {*platform.capacity} else ():
        path = join(where, "teams", team, "chips")
        yield from check_quota(path, share.chips, sorted(names))
    queued = [flavor.queued for flavor in queue.flavors]
    if True in queued and False in queued:
        rule = "must be the same in all flavors of a queue"
        at = queued.index(not queued[0])
        yield InputError(join(where, "flavors", at, "queued"), rule, queued[at])


def _check_queued(path: str, capacity: Capacity) -> Iterator[InputError]:
    rungs = capacity.rungs
    if rungs[0].placement is NodePlacement.COMPACT:
        rule = "must be false for compact nodes: queued provisioning places nodes by itself"
        yield InputError(path, rule, True)
    is_flex = rungs[0].provisioning is Provisioning.FLEX_START and not rungs[0].is_tpu
    if len(rungs) != 1 or not is_flex or capacity.node_pools is None:
        rule = "must be false unless the capacity has node_pools and one flex-start GPU rung"
        yield InputError(path, rule, True)


def _check_places(where: str, region: str, here: list[RegionCapacity]) -> Iterator[InputError]:
    for at, capacity in enumerate(here):
        path = join(where, "flavors", at, "capacity")
        if not capacity.arguments:
            yield InputError(
                path, f"must have a rung in {region}, the queue's region", capacity.name
            )
        if capacity.spans_hosts and not capacity.has_tpu:
            rule = (
                "must have rungs of one host, or TPU slices: jobs cannot use a group of GPU nodes"
            )
            yield InputError(path, rule, capacity.name)


def _check_topology(where: str, queue: Queue, here: list[RegionCapacity]) -> Iterator[InputError]:
    """Kueue knows the location of nodes that exist, and Google publishes it for some machines.

    Without `queued`, Kueue would wait for nodes before it admits a job, and GKE for the job.
    """
    for at, (flavor, capacity) in enumerate(zip(queue.flavors, here, strict=True)):
        path = join(where, "flavors", at, "topology")
        if flavor.topology and not flavor.queued:
            rule = "must be false without queued: Kueue places jobs on nodes that exist"
            yield InputError(path, rule, True)
            continue
        for rung in capacity.rungs.values():
            if flavor.topology and rung.machine.network is None:
                rule = f"must be false for {rung.machine_type}, whose location is not published"
                yield InputError(path, rule, True)


def _check_shares(where: str, queue: Queue, here: list[RegionCapacity]) -> Iterator[InputError]:
    """Chips come in whole nodes or slices, and the quotas must not exceed the total."""
    for at, (flavor, capacity) in enumerate(zip(queue.flavors, here, strict=True)):
        node, unit = _unit(capacity)
        path = join(where, "flavors", at, "chips")
        if flavor.chips % node:
            rule = f"must be a multiple of {node}, the chips of a {unit}"
            yield InputError(path, rule, flavor.chips)
        pools = capacity.settings.node_pools
        if pools is not None and pools.max_nodes * node < flavor.chips:
            rule = f"must be at most {pools.max_nodes * node}, the chips of node_pools.max_nodes"
            yield InputError(path, rule, flavor.chips)
        shares = {team: share.chips.get(flavor.capacity, 0) for team, share in queue.teams.items()}
        for team, chips in shares.items():
            if chips < 0 or chips % node:
                rule = f"must be 0 or a multiple of {node}, the chips of a {unit}"
                yield InputError(join(where, "teams", team, "chips", flavor.capacity), rule, chips)
        yield from check_total(path, flavor.chips, shares.values())


def _check_folders(
    platform: Platform, where: str, region: str, queue: Queue
) -> Iterator[InputError]:
    """A folder is shared with models: without one of them there is none."""
    models = platform.models_in(region).values()
    if any(folder is not None for folder in shared_folders(platform.storage, models)):
        return
    for team, share in queue.teams.items():
        if share.shared_folder:
            rule = f"needs a model in {region} with live_adapters.place filestore or lustre"
            yield InputError(join(where, "teams", team, "shared_folder"), rule, Bare("none"))


def _check_writers(
    where: str, region: str, queue: Queue, writers: dict[str, tuple[str, str]]
) -> Iterator[InputError]:
    """Nothing in a folder separates teams: one of them could read and replace another's files.

    Args:
        where: Path of the queue.
        region: Region of the queue.
        queue: The queue.
        writers: Team that has the folder, and the path of its setting, by region. It is updated.
    """
    for team, share in queue.teams.items():
        path = join(where, "teams", team, "shared_folder")
        if not share.shared_folder:
            continue
        writer, first = writers.setdefault(region, (team, path))
        if writer != team:
            rule = f"must be false: {first} is true, and one team of a region can have the folder"
            yield InputError(path, rule, True)


def _check_loans(where: str, queue: Queue, here: list[RegionCapacity]) -> Iterator[InputError]:
    """Chips are borrowed and lent in whole nodes, and no team lends more than its quota.

    Args:
        where: Path of the queue.
        queue: The queue.
        here: Capacity of its flavors. A loan is the same for all of them.
    """
    node, unit = min(_unit(each) for each in here)
    for team, share in queue.teams.items():
        for field, chips in (("borrow", share.borrow), ("lend", share.lend)):
            if chips is not None and chips % node:
                rule = f"must be 0 or a multiple of {node}, the chips of the smallest {unit}"
                yield InputError(join(where, "teams", team, field), rule, chips)
        own = max(share.chips.values(), default=0)
        if share.lend is not None and share.lend > own:
            rule = f"must be at most {own}, the team's own chips"
            yield InputError(join(where, "teams", team, "lend"), rule, share.lend)


def _unit(capacity: RegionCapacity) -> tuple[int, str]:
    """Return the chips that GKE creates at once: those of a node, or of a slice of several."""
    chips = max((rung.chips for rung in capacity.rungs.values()), default=1)
    return chips, "slice" if capacity.spans_hosts else "node"
