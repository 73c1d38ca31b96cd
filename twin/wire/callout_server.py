"""A gRPC server for stand-ins that load balancers call: Envoy's external processing on loopback."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

import grpc

from twin.wire import ext_proc
from twin.wire.property_values import CloudError

_LOOPBACK: Final = "127.0.0.1"
_STREAMS: Final = 64
_CODES: Final = {
    "INVALID_ARGUMENT": grpc.StatusCode.INVALID_ARGUMENT,
    "NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "PERMISSION_DENIED": grpc.StatusCode.PERMISSION_DENIED,
}


class Exchange(Protocol):
    """The state of one request."""

    def answers(self, request: Any) -> Iterator[Any]:
        """Yield the responses to a message.

        Raises:
            CloudError: The call fails with this reason.
        """
        ...


def serve(port: int, exchange: Callable[[], Exchange]) -> Any:
    """Return the started gRPC server.

    Args:
        port: Port on loopback.
        exchange: Returns the state of a new request.
    """

    def process(requests: Iterator[Any], context: Any) -> Iterator[Any]:
        state = exchange()
        for request in requests:
            try:
                yield from state.answers(request)
            except CloudError as error:
                context.abort(_CODES.get(error.reason, grpc.StatusCode.INTERNAL), error.message)

    server = grpc.server(ThreadPoolExecutor(_STREAMS))
    handler = grpc.stream_stream_rpc_method_handler(
        process,
        request_deserializer=ext_proc.Request.FromString,
        response_serializer=ext_proc.Response.SerializeToString,
    )
    handlers = grpc.method_handlers_generic_handler(ext_proc.SERVICE, {"Process": handler})
    server.add_generic_rpc_handlers((handlers,))
    server.add_insecure_port(f"{_LOOPBACK}:{port}")
    server.start()
    return server
