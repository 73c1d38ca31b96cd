"""The gRPC server that engines attach to."""

from concurrent import futures
from typing import Any

from twin.host.paths import TwinPaths
from twin.providers.kubernetes.provider import KubernetesProvider
from twin.wire import rpc
from twin.world.rules import Rules

_WORKERS = 256
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def serve(paths: TwinPaths) -> tuple[Any, int]:
    """Start the provider on a free loopback port and return (server, port).

    Every provider instance of every engine attaches to the one server; a wait holds one of its
    threads, which are made when they are needed.

    Args:
        paths: of the twin, whose clock it reads; it keeps nothing on disk, its state is in the
            clusters.
    """

    def settle_seconds() -> float:
        return Rules.of(paths).scaled("kubernetes.service.settle")

    server = rpc.grpc_module.server(futures.ThreadPoolExecutor(_WORKERS), options=_OPTIONS)
    rpc.provider_grpc.add_ResourceProviderServicer_to_server(
        KubernetesProvider(settle_seconds), server
    )
    port = int(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    return server, port
