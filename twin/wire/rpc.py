"""Shared code of both resource providers: trivial calls, and plain values.

The engine speaks gRPC; its message classes carry no types, so they are bound to `Any` here, once.
"""

import importlib
from typing import Any

import grpc

grpc_module: Any = grpc
provider_pb2: Any = importlib.import_module("pulumi.runtime.proto.provider_pb2")
provider_grpc: Any = importlib.import_module("pulumi.runtime.proto.provider_pb2_grpc")
plugin_pb2: Any = importlib.import_module("pulumi.runtime.proto.plugin_pb2")
engine_pb2: Any = importlib.import_module("pulumi.runtime.proto.engine_pb2")
engine_grpc: Any = importlib.import_module("pulumi.runtime.proto.engine_pb2_grpc")
empty_pb2: Any = importlib.import_module("google.protobuf.empty_pb2")
struct_pb2: Any = importlib.import_module("google.protobuf.struct_pb2")
json_format: Any = importlib.import_module("google.protobuf.json_format")


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _plain_value(value: Any) -> Any:
    kind: str | None = value.WhichOneof("kind")
    if kind == "struct_value":
        return plain(value.struct_value)
    if kind == "list_value":
        return [_plain_value(item) for item in value.list_value.values]
    if kind == "number_value":
        return _number(value.number_value)
    return None if kind in (None, "null_value") else getattr(value, kind)


def plain(struct: Any) -> dict[str, Any]:
    """Turn a protobuf Struct into a dict; numbers without a fraction become `int`."""
    return {key: _plain_value(value) for key, value in struct.fields.items()}


def to_struct(value: dict[str, Any]) -> Any:
    """Turn a JSON object into a protobuf Struct."""
    struct = struct_pb2.Struct()
    struct.update(value)
    return struct


class BaseProvider(provider_grpc.ResourceProviderServicer):
    """The calls that are the same for every provider; a subclass has the rest."""

    version = "0.0.0"
    """Version of the official provider that this one replaces."""

    def Handshake(self, request: Any, context: Any) -> Any:
        """Negotiate the protocol: plain values, no secrets, no resource references."""
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=False, accept_resources=False, accept_outputs=False
        )

    def Attach(self, request: Any, context: Any) -> Any:
        """Attach an engine to the running server."""
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        """Return the version of the official provider."""
        return plugin_pb2.PluginInfo(version=self.version)

    def GetSchema(self, request: Any, context: Any) -> Any:
        """Return no schema: programs use the official SDK."""
        return provider_pb2.GetSchemaResponse(schema="{}")

    def GetMapping(self, request: Any, context: Any) -> Any:
        """Return no mapping from other tools."""
        return provider_pb2.GetMappingResponse()

    def GetMappings(self, request: Any, context: Any) -> Any:
        """Return no mappings from other tools."""
        return provider_pb2.GetMappingsResponse()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        """Accept the configuration as it is."""
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        """Report no change of configuration: none replaces the provider's resources."""
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Cancel(self, request: Any, context: Any) -> Any:
        """Accept a request to stop; a subclass that waits stops its waits."""
        return empty_pb2.Empty()
