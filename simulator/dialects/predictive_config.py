"""`config.pbtxt` of a model: the fields that this server follows, as protobuf's text format.

From model_config.proto of triton-inference-server/common, which has many more fields.
"""

from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    json_format,
    message_factory,
    text_format,
)

from simulator.engine.settings import EngineError

TYPES = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
}
"""Data types of tensors with NumPy's name, in the order of their numbers in the schema from 1."""
_KINDS = ("KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL")
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "string": _FIELD.TYPE_STRING,
    "uint64": _FIELD.TYPE_UINT64,
    "bool": _FIELD.TYPE_BOOL,
}
# message -> field: (number, type); a type in brackets is repeated
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "ModelInput": {"name": (1, "string"), "data_type": (2, "DataType"), "dims": (4, "[int64]")},
    "ModelOutput": {
        "name": (1, "string"),
        "data_type": (2, "DataType"),
        "dims": (3, "[int64]"),
        "label_filename": (4, "string"),
    },
    "ModelInstanceGroup": {
        "name": (1, "string"),
        "count": (2, "int32"),
        "gpus": (3, "[int32]"),
        "kind": (4, "Kind"),
    },
    "ModelDynamicBatching": {
        "preferred_batch_size": (1, "[int32]"),
        "max_queue_delay_microseconds": (2, "uint64"),
        "preserve_ordering": (3, "bool"),
    },
    "ModelConfig": {
        "name": (1, "string"),
        "platform": (2, "string"),
        "max_batch_size": (4, "int32"),
        "input": (5, "[ModelInput]"),
        "output": (6, "[ModelOutput]"),
        "instance_group": (7, "[ModelInstanceGroup]"),
        "default_model_filename": (8, "string"),
        "dynamic_batching": (11, "ModelDynamicBatching"),
        "backend": (17, "string"),
    },
}


def read(file: Path) -> Any:
    """Return the message `ModelConfig` in a file; an empty one if there is no file.

    Raises:
        EngineError: A field is unknown, or has another type.
    """
    config = _classes()["inference.ModelConfig"]()
    if file.is_file():
        try:
            text_format.Parse(file.read_text(), config)
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise EngineError(f"{file}: {error}, for a Triton on the twin") from None
    return config


def type_number(name: str) -> int:
    """Return the number of a data type such as `FP32`.

    Raises:
        ValueError: This server has no such type.
    """
    return 1 + list(TYPES).index(name)


def type_name(number: int) -> str:
    """Return the data type of a number, such as `FP32`."""
    return list(TYPES)[number - 1] if number else "INVALID"


def described(config: Any) -> dict[str, Any]:
    """Return a configuration as the model configuration endpoint does: numbers are numbers."""
    found: dict[str, Any] = json_format.MessageToDict(
        config, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    for tensor in (*found["input"], *found["output"]):
        tensor["dims"] = [int(dim) for dim in tensor["dims"]]
    if "dynamic_batching" in found:
        batching = found["dynamic_batching"]
        name = "max_queue_delay_microseconds"
        batching[name] = int(batching[name])
    return found


@cache
def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="predictive.proto", package="inference", syntax="proto3"
    )
    types = file.enum_type.add(name="DataType")
    for number, name in enumerate(("INVALID", *TYPES)):
        types.value.add(name=f"TYPE_{name}", number=number)
    kinds = file.enum_type.add(name="Kind")
    for number, name in enumerate(_KINDS):
        kinds.value.add(name=name, number=number)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            plain = kind.strip("[]")
            made = message.field.add(name=field, number=number)
            made.label = _FIELD.LABEL_REPEATED if plain != kind else _FIELD.LABEL_OPTIONAL
            if plain in _SCALARS:
                made.type = _SCALARS[plain]
            else:
                is_enum = plain in ("DataType", "Kind")
                made.type = _FIELD.TYPE_ENUM if is_enum else _FIELD.TYPE_MESSAGE
                made.type_name = f".inference.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClassesForFiles(["predictive.proto"], pool)
