"""Types of a request's fields, read as FastAPI reads them for the servers in Python.

pydantic is what those servers read with, so its coercions (`"2"` is the number 2) and its words are
theirs.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from simulator.server.errors import ApiError

Json = dict[str, Any]
_INT64 = 2**63


class FieldError(ApiError):
    """Fields of the wrong type.

    Attributes:
        found: what FastAPI lists of each.
    """

    def __init__(self, found: list[Json]) -> None:
        count = len(found)
        lines = "".join(f"  {entry}\n" for entry in found)
        message = f"{count} validation error{'s' if count > 1 else ''}:\n{lines}".rstrip()
        where = ".".join(str(part) for part in found[0]["loc"])
        super().__init__(400, message, param=where, kind="Bad Request")
        self.found = found


def checked(form: type[BaseModel], body: Json) -> Json:
    """Return a body with its fields as a server has them after reading.

    Args:
        form: fields and their types.
        body: as it was sent.

    Raises:
        FieldError: a field is not of its type.
    """
    try:
        return form.model_validate(body, from_attributes=True).model_dump(
            exclude_unset=True, by_alias=True
        )
    except ValidationError as error:
        found = error.errors(include_url=False)
        entries = [{**entry, "loc": ("body", *entry["loc"])} for entry in found]
        raise FieldError([dict(entry) for entry in entries]) from error


class StreamOptions(BaseModel):
    """`stream_options`."""

    model_config = ConfigDict(extra="allow")
    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class Function(BaseModel):
    """A function that a tool is."""

    model_config = ConfigDict(extra="allow")
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(BaseModel):
    """A tool of a chat."""

    model_config = ConfigDict(extra="allow")
    type: Literal["function"] = "function"
    function: Function


class _Name(BaseModel):
    name: str


class NamedTool(BaseModel):
    """`tool_choice` that names a tool."""

    model_config = ConfigDict(extra="allow")
    type: Literal["function"] = "function"
    function: _Name


class JsonSchema(BaseModel):
    """`response_format.json_schema`."""

    model_config = ConfigDict(extra="allow")
    name: str
    written: dict[str, Any] | None = Field(default=None, alias="schema")


class ResponseFormat(BaseModel):
    """`response_format`."""

    model_config = ConfigDict(extra="allow")
    type: str
    json_schema: JsonSchema | None = None


class Request(BaseModel):
    """Fields that the servers in Python read alike, in chats and completions."""

    model_config = ConfigDict(extra="allow")
    seed: Annotated[int, Field(ge=-_INT64, lt=_INT64)] | None = None
    stop: str | list[str] | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None


class Vllm(Request):
    """What chats and completions of vLLM share."""

    model: str | None = None
    echo: bool = False
    frequency_penalty: float | None = None
    ignore_eos: bool = False
    logit_bias: dict[str, float] | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    n: int | None = 1
    presence_penalty: float | None = None
    priority: Annotated[int, Field(ge=-_INT64, lt=_INT64)] = 0
    prompt_logprobs: int | None = None
    response_format: ResponseFormat | None = None
    stream: bool | None = False
    temperature: float | None = None
    top_p: float | None = None
    use_beam_search: bool = False


class VllmChat(Vllm):
    """`/v1/chat/completions` of vLLM."""

    messages: list[Any] | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = 0
    max_completion_tokens: int | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None


class VllmCompletion(Vllm):
    """`/v1/completions` of vLLM."""

    prompt: str | list[str] | list[int] | list[list[int]] | None = None
    logprobs: int | None = None
    suffix: str | None = None


class VllmPrompt(BaseModel):
    """`/tokenize` and `/v1/embeddings` of vLLM."""

    model_config = ConfigDict(extra="allow")
    model: str | None = None
    dimensions: Annotated[int, Field(gt=0)] | None = None
    input: str | list[str] | list[int] | list[list[int]] | None = None
    messages: list[Any] | None = None
    prompt: str | None = None


class VllmNoAdapter(BaseModel):
    """`/v1/unload_lora_adapter` of vLLM."""

    model_config = ConfigDict(extra="allow")
    lora_name: str


class VllmAdapter(VllmNoAdapter):
    """`/v1/load_lora_adapter` of vLLM."""

    lora_path: str
    load_inplace: bool = False
