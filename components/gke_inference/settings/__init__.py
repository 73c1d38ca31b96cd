"""Settings: one class for each fact that a stack and a component have in common.

A class states the fields once, with their ranges, defaults and descriptions. The stack composes
these classes, components take them as inputs, and the schemas of both are made from them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, cast

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Base of all settings: rejects unknown fields, checks types strictly, immutable."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


class Word(StrEnum):
    """Base of enumerations, whose values are the user's words."""


def whole_numbers(value: Any) -> Any:
    """Return a value with each whole float as an int: other languages send 4 as `4.0`."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: whole_numbers(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [whole_numbers(item) for item in cast("list[Any]", value)]
    return value
