"""Ending a call with a structured error, which the engine reads from the trailing metadata."""

import importlib
from typing import Any

from twin.wire import rpc

_status_pb2: Any = importlib.import_module("pulumi.runtime.proto.status_pb2")
_UNKNOWN_CODE = 2


def abort_with_detail(context: Any, message: str, detail: Any) -> None:
    """End a call with an error that carries a message of the protocol; never returns."""
    status = _status_pb2.Status(code=_UNKNOWN_CODE, message=message)
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(rpc.grpc_module.StatusCode.UNKNOWN, message)
