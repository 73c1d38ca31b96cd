"""Node pools, whose nodes the cluster's process creates."""

from pathlib import Path

from twin.providers.gcp.effects import pool_files
from twin.providers.gcp.effects.base import Effect, World, pool_timeout
from twin.providers.gcp.resources.identity import names_in
from twin.providers.gcp.resources.references import CLUSTER, resolve
from twin.wire.property_values import CloudError, Json
from twin.world.store import Record

_COMPUTED_ONLY = ("instanceGroupUrls", "managedInstanceGroupUrls", "operation")


class NodePoolEffect(Effect):
    """Transfer of a node pool to its cluster, with the wait for its nodes."""

    def create(self, world: World, record: Record) -> Json:
        """Request the nodes and wait until they are ready."""
        folder, cluster = _cluster(world, record)
        zones = _zones(record.outputs, cluster)
        pool_files.write(folder, _pool(record.outputs), zones)
        pool_files.wait_ready(folder, record.name, pool_timeout(world))
        return {"nodeLocations": list(zones)}

    def update(self, world: World, record: Record, outputs: Json) -> Json:
        """Update the pool."""
        folder, cluster = _cluster(world, record)
        pool_files.write(folder, _pool(outputs), _zones(outputs, cluster))
        pool_files.wait_ready(folder, record.name, pool_timeout(world))
        return {}

    def delete(self, world: World, record: Record) -> None:
        """Remove the nodes, unless they were deleted with the cluster."""
        found = _find(world, record)
        if found is not None:
            pool_files.remove(_folder(world, found), record.name)


def _find(world: World, record: Record) -> Record | None:
    name = str(record.inputs["cluster"])
    return resolve((CLUSTER,), name, record.outputs, record.project, world.store)


def _folder(world: World, cluster: Record) -> Path:
    return world.paths.cluster(str(cluster.outputs["location"]), cluster.name)


def _cluster(world: World, record: Record) -> tuple[Path, Record]:
    found = _find(world, record)
    if found is None:
        raise CloudError(404, f"Not found: {record.inputs['cluster']}.", "notFound")
    return _folder(world, found), found


def _zones(values: Json, cluster: Record) -> tuple[str, ...]:
    own = names_in(values.get("nodeLocations"))
    return tuple(own or names_in(cluster.outputs.get("nodeLocations")))


def _pool(values: Json) -> Json:
    return {key: value for key, value in values.items() if key not in _COMPUTED_ONLY}
