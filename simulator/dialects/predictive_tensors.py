"""Requests and answers of the Open Inference Protocol: JSON, and Triton's binary tensor data.

docs/protocol/extension_binary_data.md of triton-inference-server/server; checks and their order
are those of `ParseJsonTritonIO` (src/http_server.cc) and of `InferenceRequest::Normalize` (core).
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from simulator.dialects.predictive_config import type_name
from simulator.dialects.predictive_models import Model, Tensors
from simulator.dialects.predictive_schema import TYPES

HEADER_LENGTH = "Inference-Header-Content-Length"
_NO_JSON = ("FP16",)
_UNAVAILABLE = ("sequence_id", "sequence_start", "sequence_end", "priority", "timeout")
_NOTE = (
    "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be "
    "prepended to each input shape. If you want to specify the full shape including the batch dim "
    "in your input dims config, try setting max_batch_size to zero. See the model configuration "
    "docs for more info on max_batch_size."
)

Json = dict[str, Any]


class TritonError(Exception):
    """An error of the server, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Question:
    """A checked request."""

    identifier: str
    """Value of `id`; empty without one."""
    inputs: Tensors
    size: int
    """Batch size; 0 for a model without batches."""
    outputs: dict[str, bool]
    """Requested outputs, and whether each is binary."""


def read(body: bytes, header_length: str | None, model: Model) -> Question:
    """Return the request in a body.

    Raises:
        TritonError: Triton would reject it.
    """
    document, rest = _split(body, header_length)
    identifier = str(document.get("id", ""))
    parameters = cast("Json", document.get("parameters") or {})
    check_parameters(parameters)
    listed = document.get("inputs")
    if not isinstance(listed, list):
        raise TritonError(
            400, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"
        )
    inputs: dict[str, Any] = {}
    types: dict[str, str] = {}
    for each in cast("list[Json]", listed):
        name, kind, value, rest = _input(each, rest, model.name)
        inputs[name], types[name] = value, kind
    if rest:
        raise TritonError(400, f"unexpected additional input data for model '{model.name}'")
    outputs = _outputs(document, model, bool(parameters.get("binary_data_output", False)))
    return Question(identifier, inputs, checked_size(identifier, inputs, types, model), outputs)


def check_parameters(names: Iterable[str]) -> None:
    """Check the names of a request's parameters.

    Raises:
        TritonError: One of them is not available.
    """
    for name in names:
        if name in _UNAVAILABLE:
            raise TritonError(400, f"{name} is not available on the twin")


def raw_tensor(data: bytes, name: str, kind: str, shape: list[int], model: str) -> Any:
    """Return an input in binary form, as little-endian numbers.

    Raises:
        TritonError: The size does not fit the shape.
    """
    wanted = math.prod(shape) * np.dtype(TYPES[kind]).itemsize
    if len(data) != wanted:
        raise TritonError(
            400,
            f"[request id: <id_unknown>] input byte size mismatch for input '{name}' for model"
            f" '{model}'. Expected {wanted}, got {len(data)}",
        )
    return np.frombuffer(data, TYPES[kind]).reshape(shape)


def _split(body: bytes, header_length: str | None) -> tuple[Json, bytes]:
    size = len(body)
    if header_length is not None:
        try:
            size = int(header_length)
        except ValueError:
            raise TritonError(
                400, f"Unable to parse {HEADER_LENGTH}, got: {header_length}"
            ) from None
        if not 0 <= size <= len(body):
            said = (
                f"inference header size should be in range (0, {len(body)}), got: {header_length}"
            )
            raise TritonError(400, said)
    try:
        document: Any = json.loads(body[:size])
    except ValueError as error:
        raise TritonError(400, f"failed to parse the request JSON buffer: {error}") from None
    if not isinstance(document, dict):
        raise TritonError(400, "failed to parse the request JSON buffer: The document is no object")
    return cast("Json", document), body[size:]


def _input(given: Json, rest: bytes, model: str) -> tuple[str, str, Any, bytes]:
    """Return name, data type and value of an input, and what is left of the binary data."""
    parameters = cast("Json", given.get("parameters") or {})
    if "shared_memory_region" in parameters:
        raise TritonError(400, "shared memory is not available on the twin")
    ways = [
        *(["'data'"] if "data" in given else []),
        *(["'binary_data_size'"] if "binary_data_size" in parameters else []),
    ]
    if len(ways) != 1:
        set_ones = f" set {' '.join(ways)}" if ways else " no field is set"
        raise TritonError(
            400,
            "Input must set only one of the following fields: 'data', 'binary_data_size' in "
            f"'parameters', 'shared_memory_region' in 'parameters'. But{set_ones}",
        )
    for field in ("name", "datatype", "shape"):
        if field not in given:
            said = f"attempt to access non-existing object member '{field}'"
            raise TritonError(400, f"Unable to parse '{field}': {said}")
    name, kind = str(given["name"]), str(given["datatype"])
    shape = [int(side) for side in given["shape"]]
    count = int(np.prod(shape)) if shape else 1
    if kind not in TYPES:
        raise TritonError(400, f"invalid datatype for input {name}")
    if "binary_data_size" in parameters:
        size = int(parameters["binary_data_size"])
        if size > len(rest):
            raise TritonError(
                400,
                f"unexpected size for input '{name}', expecting {size - len(rest)} additional "
                f"bytes for model '{model}'",
            )
        return name, kind, raw_tensor(rest[:size], name, kind, shape, model), rest[size:]
    if kind in _NO_JSON:
        raise TritonError(
            400,
            f"receiving {kind} data via JSON is not supported. Please use the binary data format "
            f"for input {name}",
        )
    return name, kind, _of_json(given["data"], kind, shape, count), rest


def _of_json(data: Any, kind: str, shape: list[int], count: int) -> Any:
    try:
        value = np.asarray(data, dtype=np.float64 if kind.startswith("FP") else None).ravel()
    except (TypeError, ValueError, OverflowError):
        raise TritonError(
            400, "Unable to parse 'data': attempt to access JSON non-number as number"
        ) from None
    if value.dtype == object or value.dtype.kind not in "iufb":
        said = "attempt to access JSON non-number as number"
        raise TritonError(400, f"Unable to parse 'data': {said}")
    if value.size > count:
        raise TritonError(
            500, "Unable to parse 'data': shape does not match true shape of 'data' field"
        )
    if value.size < count:
        said = "Failed to parse 'data' field: shape does not match true shape"
        raise TritonError(500, said)
    return value.astype(TYPES[kind]).reshape(shape)


def _outputs(document: Json, model: Model, is_binary: bool) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for each in cast("list[Json]", document.get("outputs") or []):
        parameters = cast("Json", each.get("parameters") or {})
        if "classification" in parameters or "shared_memory_region" in parameters:
            raise TritonError(400, "classification and shared memory are not available on the twin")
        name = str(each.get("name"))
        check_output(name, model)
        found[name] = bool(parameters.get("binary_data", False))
    return found or dict.fromkeys(model.outputs, is_binary)


def check_output(name: str, model: Model) -> None:
    """Check the name of a requested output.

    Raises:
        TritonError: The model has no such output.
    """
    if name not in model.outputs:
        raise TritonError(400, f"unexpected inference output '{name}' for model '{model.name}'")


def checked_size(identifier: str, inputs: Tensors, types: dict[str, str], model: Model) -> int:
    """Return the batch size of inputs that fit the configuration.

    Raises:
        TritonError: They do not fit.
    """
    prefix = f"[request id: {identifier or '<id_unknown>'}] "
    name, known = model.name, {each.name: each for each in model.config.input}
    if len(inputs) != len(known):
        missing = ",".join(f"'{each}'" for each in known if each not in inputs)
        got = ",".join(f"'{each}'" for each in sorted(inputs))
        raise TritonError(
            400,
            f"{prefix}expected {len(known)} inputs but got {len(inputs)} inputs for model '{name}'."
            f" Got input(s) [{got}], but missing required input(s) [{missing}]. Please provide all"
            " required input(s).",
        )
    for each in inputs:
        if each not in known:
            raise TritonError(400, f"unexpected inference input '{each}' for model '{name}'")
    size = 0
    for each, value in inputs.items() if model.max_batch else ():
        if not value.shape:
            said = f"input '{each}' has no shape but model requires batch dimension for '{name}'"
            raise TritonError(400, prefix + said)
        if size not in (0, value.shape[0]):
            said = f"input '{each}' batch size does not match other inputs for '{name}'"
            raise TritonError(400, prefix + said)
        size = value.shape[0]
    if size > model.max_batch:
        said = f"inference request batch-size must be <= {model.max_batch} for '{name}'"
        raise TritonError(400, prefix + said)
    for each, value in inputs.items():
        wanted = type_name(known[each].data_type)
        if types[each] != wanted:
            raise TritonError(
                400,
                f"{prefix}inference input '{each}' data-type is '{types[each]}', but model '{name}'"
                f" expects '{wanted}'",
            )
        shape = list(value.shape[1:] if model.max_batch else value.shape)
        dims = list(known[each].dims)
        if len(dims) != len(shape) or any(
            dim not in (-1, side) for dim, side in zip(dims, shape, strict=True)
        ):
            whole = [-1, *dims] if model.max_batch else dims
            note = _NOTE if model.max_batch else ""
            raise TritonError(
                400,
                f"{prefix}unexpected shape for input '{each}' for model '{name}'. Expected "
                f"{_shape(whole)}, got {_shape(value.shape)}. {note}",
            )
    return size


def _shape(dims: Any) -> str:
    return f"[{','.join(str(dim) for dim in dims)}]"


def write(question: Question, outputs: Tensors, model: Model) -> tuple[bytes, int | None]:
    """Return the body of an answer, and the length of its JSON if binary data follows."""
    listed: list[Json] = []
    binary: list[bytes] = []
    for each in model.config.output:
        if each.name not in question.outputs:
            continue
        value = outputs[each.name]
        one: Json = {
            "name": each.name,
            "datatype": type_name(each.data_type),
            "shape": list(value.shape),
        }
        if question.outputs[each.name]:
            binary.append(np.ascontiguousarray(value).tobytes())
            one["parameters"] = {"binary_data_size": len(binary[-1])}
        else:
            one["data"] = value.ravel().tolist()
        listed.append(one)
    document: Json = {
        **({"id": question.identifier} if question.identifier else {}),
        "model_name": model.name,
        "model_version": model.version,
        "outputs": listed,
    }
    head = json.dumps(document, separators=(",", ":")).encode()
    return head + b"".join(binary), len(head) if binary else None
