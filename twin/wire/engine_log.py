"""Messages to the engine, displayed with their resource."""

from typing import Any, Literal

from twin.wire import rpc

Severity = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


class EngineLog:
    """The engine's log service; silent if the engine gave no address."""

    def __init__(self) -> None:
        self._stub: Any = None
        self._channel: Any = None
        self._address = ""

    def connect(self, address: str) -> None:
        """Connect to the engine at `HOST:PORT`."""
        if not address or address == self._address:
            return
        self.close()
        self._address = address
        self._channel = rpc.grpc_module.insecure_channel(address)
        self._stub = rpc.engine_grpc.EngineStub(self._channel)

    def status(self, urn: str, message: str) -> None:
        """Show a temporary message, which the next one replaces."""
        self._send(urn, message, "INFO", ephemeral=True)

    def warn(self, urn: str, message: str) -> None:
        """Show a permanent warning."""
        self._send(urn, message, "WARNING", ephemeral=False)

    def _send(self, urn: str, message: str, severity: Severity, *, ephemeral: bool) -> None:
        if self._stub is None:
            return
        request = rpc.engine_pb2.LogRequest(
            severity=rpc.engine_pb2.LogSeverity.Value(severity),
            message=message,
            urn=urn,
            ephemeral=ephemeral,
        )
        try:
            self._stub.Log(request, timeout=5)
        except rpc.grpc_module.RpcError:
            self._stub = None  # the engine is gone; its next connection brings a new address

    def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            self._channel.close()
        self._channel = self._stub = None
