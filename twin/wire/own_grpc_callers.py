"""gRPC servers on loopback that answer only programs of their own user."""

from collections.abc import Callable
from typing import Any, Final

from twin.host.own_callers import is_own
from twin.wire.rpc import grpc_module

_LOOPBACK: Final = "127.0.0.1"
_KINDS: Final = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class OwnCallers(grpc_module.ServerInterceptor):
    """Refuses calls of a gRPC server on loopback by programs of other users.

    Web pages cannot call such a server: browsers speak HTTP/2 only over TLS.
    """

    def __init__(self) -> None:
        self.port = 0
        """Port of the server; set when it is known."""

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: Any
    ) -> Any:
        """Return the handler of a call, which looks at its caller first."""
        found = continuation(handler_call_details)
        if found is None:
            return None
        kind = next(each for each in _KINDS if getattr(found, each) is not None)
        behind = getattr(found, kind)

        def checked(request: Any, context: Any) -> Any:
            self._check(context)
            return behind(request, context)

        return found._replace(**{kind: checked})

    def _check(self, context: Any) -> None:
        scheme, _, rest = context.peer().partition(":")  # ipv4:127.0.0.1:54321
        host, _, port = rest.rpartition(":")
        if scheme != "ipv4" or not is_own((host, int(port)), (_LOOPBACK, self.port)):
            context.abort(
                grpc_module.StatusCode.PERMISSION_DENIED,
                "only programs of the server's user may call it",
            )
