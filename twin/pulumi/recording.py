"""Providers that create nothing and record the state that a stack would have.

An `up` with them takes seconds and leaves a state with every input, output and ID, like that of the
twin's cloud. A preview on that state then shows the effect of a change. No control plane starts,
quotas and names are not checked, and errors that the cluster or the cloud would return do not
occur.
"""

import zlib
from collections.abc import Generator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

from twin.cluster.gateway.cloud_objects import RULES_ANNOTATION
from twin.host.paths import TwinPaths
from twin.providers.gcp.checks.defaults import without_lists
from twin.providers.gcp.effects.base import World
from twin.providers.gcp.effects.cluster import ClusterEffect
from twin.providers.gcp.provider import Provider
from twin.providers.gcp.resources import memorystore
from twin.providers.gcp.resources.computed_outputs import created
from twin.providers.gcp.resources.identity import resource_id
from twin.providers.gcp.resources.key_versions import CRYPTO_KEY
from twin.providers.gcp.resources.references import CLUSTER
from twin.providers.gcp.server import world_of
from twin.providers.kubernetes.manifests import objects
from twin.providers.kubernetes.manifests.managers import CREATOR
from twin.providers.kubernetes.provider import KubernetesProvider
from twin.wire import rpc
from twin.wire.property_values import CloudError, Json, strip_secrets
from twin.world.store import new_record

_THREADS = 64
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
ENDPOINT = "127.0.0.1:9"
"""Endpoint of every recorded cluster: the port `discard`, on which nothing answers."""
_AUTHORITY = "no certificate: this cluster was made up"


def _address(seed: str) -> str:
    """Return an address from a range for documentation (RFC 5737), the same in each run."""
    return f"192.0.2.{zlib.crc32(seed.encode()) % 254 + 1}"


def _reached(kind: str, identifier: str, values: Json, urn: str) -> Json:
    """Return the addresses that the cloud would choose for a resource, which programs read."""
    address = _address(urn)
    if kind == "container/cluster":
        return ClusterEffect.reached_at(values, ENDPOINT, _AUTHORITY)
    if kind in ("compute/address", "compute/globalAddress"):
        return {"address": values.get("address") or address}
    if kind == "memorystore/instance":
        authorities: list[Json] = [{"caCerts": [{"certificates": [_AUTHORITY]}]}]
        found = memorystore.endpoints(values, identifier, address)
        return {**found, "managedServerCas": authorities}
    return {}


class RecordingCloud(Provider):
    """The twin's gcp provider, which checks and compares as usual but creates nothing."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._created_clusters: dict[str, Json] = {}

    def _clusters(self) -> list[Json]:
        return list(self._created_clusters.values())

    def Create(self, request: Any, context: Any) -> Any:
        """Return the expected resource, with an ID."""
        if request.preview:
            return super().Create(request, context)
        known = self._known(request, context)
        inputs = without_lists(strip_secrets(rpc.plain(request.properties)))
        configured = self._settings(context)
        try:
            placed = self.lifecycle.place(known, inputs, configured)
            project = str(placed.get("project") or configured.get("project") or "")
            identifier = resource_id(known, placed, project, request.urn)
            outputs = created(known, placed, identifier, request.urn, configured)
        except CloudError as error:
            context.abort(rpc.grpc_module.StatusCode.FAILED_PRECONDITION, str(error))
            raise AssertionError from error  # abort does not return
        if known.token == CRYPTO_KEY:  # a program asks for its versions in the same run
            name = identifier.rpartition("/")[2]
            record = new_record(
                known.token, identifier, name, project, request.urn, inputs, outputs
            )
            self.lifecycle.world.store.add(record, [])
        outputs.update(_reached(known.kind, identifier, outputs, request.urn))
        if known.token == CLUSTER:
            self._created_clusters[request.urn] = outputs
        return rpc.provider_pb2.CreateResponse(
            id=identifier, properties=self._struct(known, outputs)
        )

    def Read(self, request: Any, context: Any) -> Any:
        """Return a cluster outside the stack that a program reads by its ID."""
        known = self._known(request, context)
        if known.kind != "container/cluster":
            return super().Read(request, context)
        _, project, _, location, _, name = str(request.id).split("/")
        inputs = {"location": location, "name": name, "project": project}
        outputs = created(known, inputs, request.id, request.urn, self._settings(context))
        outputs.update(_reached(known.kind, request.id, outputs, request.urn))
        return rpc.provider_pb2.ReadResponse(
            id=request.id, properties=self._struct(known, outputs), inputs=rpc.to_struct(inputs)
        )


class RecordingKubernetes(KubernetesProvider):
    """The twin's kubernetes provider without a cluster; it returns objects as requested."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[tuple[str, str], dict[str, Any]] = {}

    def Create(self, request: Any, context: Any) -> Any:
        """Return the requested object."""
        inputs = rpc.plain(request.properties)
        if request.preview:
            return rpc.provider_pb2.CreateResponse(properties=request.properties)
        made = objects.to_object(inputs)
        self._made[str(made["kind"]), objects.identifier(made)] = made
        outputs = objects.to_outputs(made, inputs, CREATOR)
        del outputs["__inputs"]  # what a later update needs, and there is none
        return rpc.provider_pb2.CreateResponse(
            id=objects.identifier(made), properties=rpc.to_struct(outputs)
        )

    def Read(self, request: Any, context: Any) -> Any:
        """Return an object that a program reads, with what GKE writes into it."""
        seen = self._identity(request, {})
        made = {**self._made.get((seen["kind"], request.id), {}), **seen}
        if made["kind"] == "Gateway":
            made["metadata"]["annotations"] = {RULES_ANNOTATION: made["metadata"]["name"]}
            asked: list[Json] = made.get("spec", {}).get("addresses") or [{}]
            addresses = [_address(f"{request.id}/{index}") for index in range(len(asked))]
            made["status"] = {"addresses": [{"value": each} for each in addresses]}
        if made["kind"] == "GCPGatewayPolicy":  # a published gateway waits for it
            made["status"] = {"conditions": [{"type": "Attached", "status": "True"}]}
        outputs = objects.to_outputs(made, made, CREATOR)
        del outputs["__inputs"]
        return rpc.provider_pb2.ReadResponse(id=request.id, properties=rpc.to_struct(outputs))

    def Update(self, request: Any, context: Any) -> Any:
        """Return the object as now requested."""
        return rpc.provider_pb2.UpdateResponse(properties=request.news)


@contextmanager
def recording(paths: TwinPaths) -> Generator[dict[str, int]]:
    """Serve both providers on loopback, and yield their ports by name.

    Args:
        paths: paths of a separate twin with existing folders, for the gcp provider's store.
    """
    servers: list[Any] = []
    found: dict[str, int] = {}
    providers = {"gcp": RecordingCloud(world_of(paths)), "kubernetes": RecordingKubernetes()}
    try:
        for name, provider in providers.items():
            pool = futures.ThreadPoolExecutor(_THREADS, thread_name_prefix=name)
            server: Any = rpc.grpc_module.server(pool, options=_OPTIONS)
            rpc.provider_grpc.add_ResourceProviderServicer_to_server(provider, server)
            found[name] = int(server.add_insecure_port("127.0.0.1:0"))
            server.start()
            servers.append(server)
        yield found
    finally:
        for server in servers:
            server.stop(grace=None).wait()
