"""Messages of the Open Inference Protocol over gRPC and of `config.pbtxt`, with Triton's fields.

From grpc_service.proto and model_config.proto of triton-inference-server/common, which have more
messages and fields. Only the numbers and types of fields matter on the wire.
"""

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

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
    "bytes": _FIELD.TYPE_BYTES,
    "double": _FIELD.TYPE_DOUBLE,
    "float": _FIELD.TYPE_FLOAT,
    "uint32": _FIELD.TYPE_UINT32,
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
    # grpc_service.proto: a map is a list of keys and values, nested messages are beside each other
    "Nothing": {},
    "ServerLiveResponse": {"live": (1, "bool")},
    "ServerReadyResponse": {"ready": (1, "bool")},
    "ModelRequest": {"name": (1, "string"), "version": (2, "string")},
    "ModelReadyResponse": {"ready": (1, "bool")},
    "TensorMetadata": {"name": (1, "string"), "datatype": (2, "string"), "shape": (3, "[int64]")},
    "ModelMetadataResponse": {
        "name": (1, "string"),
        "versions": (2, "[string]"),
        "platform": (3, "string"),
        "inputs": (4, "[TensorMetadata]"),
        "outputs": (5, "[TensorMetadata]"),
    },
    "ModelConfigResponse": {"config": (1, "ModelConfig")},
    "Parameter": {"key": (1, "string")},
    "InferTensorContents": {
        "bool_contents": (1, "[bool]"),
        "int_contents": (2, "[int32]"),
        "int64_contents": (3, "[int64]"),
        "uint_contents": (4, "[uint32]"),
        "uint64_contents": (5, "[uint64]"),
        "fp32_contents": (6, "[float]"),
        "fp64_contents": (7, "[double]"),
    },
    "InferTensor": {
        "name": (1, "string"),
        "datatype": (2, "string"),
        "shape": (3, "[int64]"),
        "parameters": (4, "[Parameter]"),
        "contents": (5, "InferTensorContents"),
    },
    "InferRequestedOutputTensor": {"name": (1, "string"), "parameters": (2, "[Parameter]")},
    "ModelInferRequest": {
        "model_name": (1, "string"),
        "model_version": (2, "string"),
        "id": (3, "string"),
        "parameters": (4, "[Parameter]"),
        "inputs": (5, "[InferTensor]"),
        "outputs": (6, "[InferRequestedOutputTensor]"),
        "raw_input_contents": (7, "[bytes]"),
    },
    "ModelInferResponse": {
        "model_name": (1, "string"),
        "model_version": (2, "string"),
        "id": (3, "string"),
        "outputs": (5, "[InferTensor]"),
        "raw_output_contents": (6, "[bytes]"),
    },
    # grpc/health/v1/health.proto; an enum is a number
    "HealthCheckRequest": {"service": (1, "string")},
    "HealthCheckResponse": {"status": (1, "int32")},
}


@cache
def classes() -> dict[str, Any]:
    """Return the classes of messages by their name, which begins with `inference.`."""
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
