"""Settings: one class for each fact that a stack and a component have in common.

A class states the fields once, with their ranges, defaults and descriptions. The stack composes
these classes, components take them as inputs, and the schemas of both are made from them.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Base of all settings: rejects unknown fields, checks types strictly, immutable."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


class Word(StrEnum):
    """Base of enumerations, whose values are the user's words."""
