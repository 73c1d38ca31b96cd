"""Settings: one class for each fact that a stack and a component have in common.

A class states the fields once, with their ranges, defaults and descriptions. The stack composes
these classes, components take them as inputs, and the schemas of both are made from them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function


class Settings(BaseModel):
    """Base of all settings: rejects unknown fields, checks types strictly, immutable."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


class Word(StrEnum):
    """Base of enumerations, whose values are the user's words."""


@dataclass(frozen=True)
class OneOf:
    """Annotation of a text that is one of the words of a table, such as the names of engines."""

    words: tuple[str, ...]

    def __get_pydantic_core_schema__(
        self, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema that validates a word."""
        return no_info_after_validator_function(self._known, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the JSON schema with all words."""
        return {"enum": list(self.words), "type": "string"}

    def _known(self, word: str) -> str:
        if word not in self.words:
            raise PydanticCustomError("enum", "must be a word of the table")
        return word
