"""Triton's official gRPC client beside the Protocol Buffers of Pulumi's SDK.

The client's generated code is of a later release than the runtime that Pulumi's SDK allows, which
refuses such code unless a variable is set (google.protobuf.runtime_version). The messages use
nothing that the runtime lacks: tests compare what they contain.
"""

import importlib
import os
from typing import Any

_UNCHECKED = "TEMPORARILY_DISABLE_PROTOBUF_VERSION_CHECK"


def _loaded() -> Any:
    before = os.environ.get(_UNCHECKED)
    os.environ[_UNCHECKED] = "true"
    try:
        return importlib.import_module("tritonclient.grpc")
    finally:
        if before is None:
            del os.environ[_UNCHECKED]
        else:
            os.environ[_UNCHECKED] = before


grpcclient: Any = _loaded()
