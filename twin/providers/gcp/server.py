"""The server of the gcp provider for engines."""

import logging
from concurrent import futures
from typing import Any

from twin.host.paths import TwinPaths
from twin.providers.gcp.effects.base import World
from twin.providers.gcp.provider import Provider
from twin.wire import rpc
from twin.wire.own_grpc_callers import OwnCallers
from twin.world.events import Events
from twin.world.store import Store

_THREADS = 64
_MAX_MESSAGE = 400 * 1024 * 1024
_log = logging.getLogger(__name__)


def world_of(paths: TwinPaths) -> World:
    """Return the context of the provider of the twin in `paths`."""
    return World(paths, Store(paths.cloud_db), Events(paths.events_file))


def serve(paths: TwinPaths) -> tuple[Any, int]:
    """Start the provider's server on a free loopback port, and resume interrupted operations.

    Returns:
        The gRPC server and its port.
    """
    provider = Provider(world_of(paths))
    options = [
        ("grpc.max_receive_message_length", _MAX_MESSAGE),
        ("grpc.max_send_message_length", _MAX_MESSAGE),
        ("grpc.so_reuseport", 0),
    ]
    callers = OwnCallers()
    server = rpc.grpc_module.server(
        futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="gcp"),
        options=options,
        interceptors=[callers],
    )
    rpc.provider_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = callers.port = int(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    for resource_id in provider.lifecycle.resume():
        _log.info("resumed %s", resource_id)
    return server, port
