"""Clusters: a real control plane each, and a cluster's inline node pools."""

import base64
import importlib
import uuid
from typing import Any

from twin.providers.gcp.effects import pool_files
from twin.providers.gcp.effects.base import Effect, World, pool_timeout
from twin.providers.gcp.resources.identity import digest, names_in
from twin.wire.property_values import Json, as_list, as_object, get_path
from twin.world.store import Record

_INLINE_POOL = "default-pool"


class ClusterEffect(Effect):
    """Start and stop of the control plane through `twin.cluster.lifecycle`."""

    def create(self, world: World, record: Record) -> Json:
        """Start the control plane, then the inline pools, and return the endpoint."""
        clusters: Any = importlib.import_module("twin.cluster.lifecycle")
        context: Any = importlib.import_module("twin.cluster.base.context")
        values = record.outputs
        spec = context.ClusterSpec(
            project=record.project,
            location=str(values["location"]),
            name=record.name,
            zones=tuple(names_in(values.get("nodeLocations"))),
            autopilot=values.get("enableAutopilot") is True,
            version=str(values["masterVersion"]),
            uid=str(uuid.UUID(digest(record.id, str(record.created))[:32])),
        )

        def progress(message: str) -> None:
            world.events.emit("cloud.create", record.name, message, type=record.type)

        handle = clusters.create(spec, world.paths, progress)
        self._note_workload_pool(world, record, values)
        for pool in inline_pools(values):
            pool_files.write(handle.folder, pool, spec.zones)
            pool_files.wait_ready(handle.folder, str(pool["name"]), pool_timeout(world))
        return self.reached_at(values, handle.endpoint, handle.ca_pem)

    def update(self, world: World, record: Record, outputs: Json) -> Json:
        """Update the inline pools."""
        folder = world.paths.cluster(str(outputs["location"]), record.name)
        before = {str(pool["name"]): pool for pool in inline_pools(record.outputs)}
        after = {str(pool["name"]): pool for pool in inline_pools(outputs)}
        for name, pool in after.items():
            if before.get(name) != pool:
                pool_files.write(folder, pool, tuple(names_in(outputs.get("nodeLocations"))))
        for name in before.keys() - after.keys():
            pool_files.remove(folder, name)
        self._note_workload_pool(world, record, outputs)
        return {}

    def delete(self, world: World, record: Record) -> None:
        """Stop the control plane, and remove its data and node pools."""
        clusters: Any = importlib.import_module("twin.cluster.lifecycle")
        clusters.delete(str(record.outputs["location"]), record.name, world.paths)

    @staticmethod
    def _note_workload_pool(world: World, record: Record, values: Json) -> None:
        pool = get_path(values, "workloadIdentityConfig.workloadPool")
        if values.get("enableAutopilot") is True:
            pool = f"{record.project}.svc.id.goog"
        if pool:
            world.store.note(f"workload-pool {pool}", value=True)

    @staticmethod
    def reached_at(values: Json, endpoint: str, ca_pem: str) -> Json:
        """Return the endpoint outputs of a cluster.

        Args:
            values: other outputs of the cluster.
            endpoint: `HOST:PORT` of the control plane.
            ca_pem: certificate of its authority, in PEM format.
        """
        authority = base64.b64encode(ca_pem.encode()).decode()
        auth = as_object(values.get("masterAuth")) or {}
        plane = as_object(values.get("controlPlaneEndpointsConfig")) or {}
        dns = as_object(plane.get("dnsEndpointConfig")) or {}
        found: Json = {
            "endpoint": endpoint,
            "masterAuth": {
                "clientCertificateConfig": {"issueClientCertificate": False},
                **auth,
                "clusterCaCertificate": authority,
            },
            "controlPlaneEndpointsConfig": {
                **plane,
                "dnsEndpointConfig": {**dns, "endpoint": endpoint},
            },
        }
        private = as_object(values.get("privateClusterConfig"))
        if private is not None:
            host = endpoint.partition(":")[0]
            found["privateClusterConfig"] = {
                **private,
                "privateEndpoint": host,
                "publicEndpoint": host,
            }
        return found


def inline_pools(values: Json) -> list[Json]:
    """Return a cluster's inline node pools as inputs of node pools."""
    if values.get("enableAutopilot") is True:
        return []
    pools = as_list(values.get("nodePools"))
    if pools:
        found = [as_object(pool) or {} for pool in pools]
        return [{"name": f"pool-{number}", **pool} for number, pool in enumerate(found)]
    if values.get("removeDefaultNodePool") is True:
        return []
    pool: Json = {"name": _INLINE_POOL, "initialNodeCount": values.get("initialNodeCount") or 1}
    config = as_object(values.get("nodeConfig"))
    return [{**pool, "nodeConfig": config} if config else pool]
