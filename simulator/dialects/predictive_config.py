"""`config.pbtxt` of a model: the fields that this server follows, as protobuf's text format.

From model_config.proto of triton-inference-server/common, which has many more fields.
"""

from pathlib import Path
from typing import Any

from google.protobuf import json_format, text_format

from simulator.dialects.predictive_schema import TYPES, classes
from simulator.engine.settings import EngineError


def read(file: Path) -> Any:
    """Return the message `ModelConfig` in a file; an empty one if there is no file.

    Raises:
        EngineError: A field is unknown, or has another type.
    """
    config = classes()["inference.ModelConfig"]()
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
