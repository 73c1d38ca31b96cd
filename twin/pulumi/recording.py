"""Providers that say what would come to be and make nothing: what a stack's state would look like.

An `up` on them ends in seconds and leaves a state with every input, output and id, as the twin's
cloud would give them. A preview over that state then shows what a change would do. No control plane
is started, no quota or name is looked at, and what cluster and cloud would refuse is not refused.
"""

from collections.abc import Generator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

from twin.host.paths import TwinPaths
from twin.providers.gcp.checks.defaults import without_lists
from twin.providers.gcp.effects.cluster import ClusterEffect
from twin.providers.gcp.provider import Provider
from twin.providers.gcp.resources.identity import resource_id
from twin.providers.gcp.resources.key_versions import CRYPTO_KEY
from twin.providers.gcp.resources.outputs import created
from twin.providers.gcp.server import world_of
from twin.providers.kubernetes.manifests import objects
from twin.providers.kubernetes.manifests.managers import CREATOR
from twin.providers.kubernetes.provider import KubernetesProvider
from twin.wire import rpc
from twin.wire.property_values import CloudError
from twin.world.store import new_record

_THREADS = 64
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
ENDPOINT = "127.0.0.1:9"
"""Of every cluster that is made up: the port `discard`, where nothing answers."""
_AUTHORITY = "no certificate: this cluster was made up"


class RecordingCloud(Provider):
    """The twin's gcp provider, which checks and compares as ever and creates nothing."""

    def Create(self, request: Any, context: Any) -> Any:
        """Return what the resource would look like, with an id."""
        if request.preview:
            return super().Create(request, context)
        known = self._known(request, context)
        inputs = without_lists(rpc.strip_secrets(rpc.plain(request.properties)))
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
        if known.kind == "container/cluster":
            outputs.update(ClusterEffect.reached_at(outputs, ENDPOINT, _AUTHORITY))
        return rpc.provider_pb2.CreateResponse(
            id=identifier, properties=self._struct(known, outputs)
        )

    def Read(self, request: Any, context: Any) -> Any:
        """Return a cluster that exists beside the stack, as a program reads it by its id."""
        known = self._known(request, context)
        if known.kind != "container/cluster":
            return super().Read(request, context)
        _, project, _, location, _, name = str(request.id).split("/")
        inputs = {"location": location, "name": name, "project": project}
        outputs = created(known, inputs, request.id, request.urn, self._settings(context))
        outputs.update(ClusterEffect.reached_at(outputs, ENDPOINT, _AUTHORITY))
        return rpc.provider_pb2.ReadResponse(
            id=request.id, properties=self._struct(known, outputs), inputs=rpc.to_struct(inputs)
        )


class RecordingKubernetes(KubernetesProvider):
    """The twin's kubernetes provider without a cluster: an object is what was asked for."""

    def Create(self, request: Any, context: Any) -> Any:
        """Return the object as it was asked for."""
        inputs = rpc.plain(request.properties)
        if request.preview:
            return rpc.provider_pb2.CreateResponse(properties=request.properties)
        made = objects.to_object(inputs)
        outputs = objects.to_outputs(made, inputs, CREATOR)
        del outputs["__inputs"]  # what a later update needs, and there is none
        return rpc.provider_pb2.CreateResponse(
            id=objects.identifier(made), properties=rpc.to_struct(outputs)
        )

    def Update(self, request: Any, context: Any) -> Any:
        """Return the object as it is asked for now."""
        return rpc.provider_pb2.UpdateResponse(properties=request.news)


@contextmanager
def recording(paths: TwinPaths) -> Generator[dict[str, int]]:
    """Serve both providers on loopback, and yield the port of each by its name.

    Args:
        paths: of a twin of their own, whose folders exist; the gcp provider keeps its store there.
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
