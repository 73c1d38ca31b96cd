"""The gRPC server that engines attach to."""

from concurrent import futures
from typing import Any

from twin.host.paths import TwinPaths
from twin.providers.kubernetes.manifests.applying import KIND_FLOOR_SECONDS, MISSING_SECONDS
from twin.providers.kubernetes.provider import KubernetesProvider
from twin.wire import rpc
from twin.wire.own_grpc_callers import OwnCallers
from twin.world.rules import Rules

_WORKERS = 256
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def serve(paths: TwinPaths) -> tuple[Any, int]:
    """Start the provider on a free loopback port and return (server, port).

    Every provider instance of every engine attaches to this server. A wait uses one of its threads,
    which are created on demand.

    Args:
        paths: paths of the twin, for its clock; the provider's state is in the clusters, not on
            disk.
    """

    def settle_seconds() -> float:
        return Rules.of(paths).scaled("kubernetes.service.settle")

    def kind_seconds() -> float:
        seconds = MISSING_SECONDS / Rules.of(paths).speed
        return max(KIND_FLOOR_SECONDS, seconds)

    callers = OwnCallers()
    server = rpc.grpc_module.server(
        futures.ThreadPoolExecutor(_WORKERS), options=_OPTIONS, interceptors=[callers]
    )
    rpc.provider_grpc.add_ResourceProviderServicer_to_server(
        KubernetesProvider(settle_seconds, kind_seconds), server
    )
    port = callers.port = int(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    return server, port
