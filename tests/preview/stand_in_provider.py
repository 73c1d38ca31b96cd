"""A provider as the engine starts one: prints its port and serves until it is ended.

`python -m tests.preview.stand_in_provider gcp|kubernetes`
"""

import sys
from concurrent import futures
from typing import Any

from twin.host.paths import TwinPaths
from twin.providers.gcp.server import world_of
from twin.pulumi.recording import RecordingCloud, RecordingKubernetes
from twin.wire import rpc


class Cloud(RecordingCloud):
    """A cloud in which everything is as the state has it."""

    def Read(self, request: Any, context: Any) -> Any:
        return _unchanged(request)


class Kubernetes(RecordingKubernetes):
    """Clusters in which everything is as the state has it."""

    def Read(self, request: Any, context: Any) -> Any:
        return _unchanged(request)


def _unchanged(request: Any) -> Any:
    """Return what a refresh knows already: stand-ins keep nothing from one run to the next."""
    return rpc.provider_pb2.ReadResponse(
        id=request.id, properties=request.properties, inputs=request.inputs
    )


def serve(name: str) -> None:
    """Serve a provider that makes nothing."""
    is_cloud = name == "gcp"
    provider = Cloud(world_of(TwinPaths.default())) if is_cloud else Kubernetes()
    server: Any = rpc.grpc_module.server(futures.ThreadPoolExecutor(16))
    rpc.provider_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)  # noqa: T201 - the engine reads it
    server.wait_for_termination()


if __name__ == "__main__":
    serve(sys.argv[1])
