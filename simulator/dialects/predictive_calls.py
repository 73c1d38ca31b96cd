"""Triton's gRPC service in front of the models of a repository, and the standard health service.

Calls, errors and answers are those of triton-inference-server/server at v2.70.0 (`src/grpc`).
Outputs are always in `raw_output_contents`, as there. Statistics, the repository, shared memory,
tracing and streams are not served.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
import numpy as np

from simulator.dialects.predictive_models import BackendError, Model
from simulator.dialects.predictive_schema import TYPES, classes
from simulator.dialects.predictive_tensors import (
    Question,
    TritonError,
    check_output,
    check_parameters,
    checked_size,
    raw_tensor,
)
from simulator.server.generation import POD_HEADER

_GRPC: Any = grpc
_CODES = {400: _GRPC.StatusCode.INVALID_ARGUMENT, 500: _GRPC.StatusCode.INTERNAL}
_SERVING, _NOT_SERVING = 1, 2
_UNBOUNDED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_CONTENTS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}
"""Field of a tensor by its type; FP16 has none."""


class PredictiveCalls:
    """The gRPC server of a Triton."""

    def __init__(self, models: Mapping[str, Model], pod: str) -> None:
        self._models = models
        self._pod = pod
        self.is_ready = True
        """Whether it accepts calls; false once it ends."""
        self._server: Any = None

    async def start(self, address: str, port: int) -> int:
        """Serve on a port, or a free one for 0. Return the port.

        Raises:
            OSError: The port is in use.
        """
        self._server = _GRPC.aio.server(options=_UNBOUNDED)
        self._server.add_generic_rpc_handlers((self._triton(), self._health()))
        try:
            bound: int = self._server.add_insecure_port(f"{address}:{port}")
        except RuntimeError as error:
            raise OSError(f"{address}:{port}: {error}") from None
        await self._server.start()
        return bound

    async def stop(self, seconds: float) -> None:
        """Accept no more calls, and end those that are still open after some seconds."""
        self.is_ready = False
        if self._server is not None:
            await self._server.stop(seconds)

    def _triton(self) -> Any:
        handlers = {
            "ServerLive": _handler("Nothing", "ServerLiveResponse", self._live),
            "ServerReady": _handler("Nothing", "ServerReadyResponse", self._ready),
            "ModelReady": _handler("ModelRequest", "ModelReadyResponse", self._model_ready),
            "ModelMetadata": _handler("ModelRequest", "ModelMetadataResponse", self._metadata),
            "ModelConfig": _handler("ModelRequest", "ModelConfigResponse", self._config),
            "ModelInfer": _handler("ModelInferRequest", "ModelInferResponse", self._infer),
        }
        return _GRPC.method_handlers_generic_handler("inference.GRPCInferenceService", handlers)

    def _health(self) -> Any:
        handlers = {"Check": _handler("HealthCheckRequest", "HealthCheckResponse", self._check)}
        return _GRPC.method_handlers_generic_handler("grpc.health.v1.Health", handlers)

    async def _check(self, _request: Any, _call: Any) -> dict[str, Any]:
        return {"status": _SERVING if self.is_ready else _NOT_SERVING}

    async def _live(self, _request: Any, _call: Any) -> dict[str, Any]:
        return {"live": True}

    async def _ready(self, _request: Any, _call: Any) -> dict[str, Any]:
        return {"ready": self.is_ready}

    async def _model_ready(self, request: Any, _call: Any) -> dict[str, Any]:
        return {"ready": self._has(request.name, request.version)}

    async def _metadata(self, request: Any, call: Any) -> dict[str, Any]:
        return (await self._model(request.name, request.version, call)).metadata()

    async def _config(self, request: Any, call: Any) -> dict[str, Any]:
        return {"config": (await self._model(request.name, request.version, call)).config}

    async def _infer(self, request: Any, call: Any) -> dict[str, Any]:
        model = await self._model(request.model_name, request.model_version, call)
        question = question_of(request, model)
        try:
            outputs = await model.infer(question.inputs, question.size)
        except BackendError as error:
            raise TritonError(500, str(error)) from error
        if self._pod:
            await call.send_initial_metadata(((POD_HEADER.lower(), self._pod),))
        described = {each["name"]: each for each in model.metadata()["outputs"]}
        return {
            "model_name": model.name,
            "model_version": model.version,
            "id": question.identifier,
            "outputs": [
                {**described[name], "shape": list(outputs[name].shape)} for name in question.outputs
            ],
            "raw_output_contents": [
                np.ascontiguousarray(outputs[name]).tobytes() for name in question.outputs
            ],
        }

    def _has(self, name: str, version: str) -> bool:
        found = self._models.get(name)
        return found is not None and version in ("", found.version)

    async def _model(self, name: str, version: str, call: Any) -> Model:
        if not self._has(name, version):
            of = f" version {version}" if version and name in self._models else ""
            said = f"Request for unknown model: '{name}'{of} is not found"
            await call.abort(_GRPC.StatusCode.NOT_FOUND, said)
        return self._models[name]


def question_of(request: Any, model: Model) -> Question:
    """Return the checked request in a `ModelInferRequest`.

    Raises:
        TritonError: Triton would reject it.
    """
    check_parameters(each.key for each in request.parameters)
    raw = list(request.raw_input_contents)
    if raw and len(raw) != len(request.inputs):
        raise TritonError(
            400,
            f"expected tensor data for {len(request.inputs)} inputs but got {len(raw)} sets of data"
            f" for model '{model.name}'",
        )
    inputs: dict[str, Any] = {}
    types: dict[str, str] = {}
    for at, each in enumerate(request.inputs):
        if any(parameter.key == "shared_memory_region" for parameter in each.parameters):
            raise TritonError(400, "shared memory is not available on the twin")
        if each.datatype not in TYPES:
            raise TritonError(400, f"invalid datatype for input {each.name}")
        shape, types[each.name] = list(each.shape), each.datatype
        data = raw[at] if raw else _bytes(each)
        inputs[each.name] = raw_tensor(data, each.name, each.datatype, shape, model.name)
    for output in request.outputs:
        if output.parameters:
            raise TritonError(400, "classification and shared memory are not available on the twin")
        check_output(output.name, model)
    outputs = [output.name for output in request.outputs] or model.outputs
    size = checked_size(request.id, inputs, types, model)
    return Question(request.id, inputs, size, dict.fromkeys(outputs, True))


def _bytes(tensor: Any) -> bytes:
    """Return the typed contents of an input as little-endian numbers."""
    field = _CONTENTS.get(tensor.datatype)
    if field is None:
        said = f"contents of {tensor.datatype} must be in raw_input_contents"
        raise TritonError(400, f"{said} for input {tensor.name}")
    return np.array(getattr(tensor.contents, field), TYPES[tensor.datatype]).tobytes()


def _handler(
    request: str, answer: str, handle: Callable[[Any, Any], Awaitable[dict[str, Any]]]
) -> Any:
    """Return the handler of a call, whose answer is given by its fields."""
    known = classes()

    async def answered(message: Any, call: Any) -> Any:
        try:
            return known[f"inference.{answer}"](**await handle(message, call))
        except TritonError as error:
            await call.abort(_CODES[error.status], str(error))

    return _GRPC.unary_unary_rpc_method_handler(
        answered,
        request_deserializer=known[f"inference.{request}"].FromString,
        response_serializer=_serialized,
    )


def _serialized(message: Any) -> bytes:
    return message.SerializeToString()
