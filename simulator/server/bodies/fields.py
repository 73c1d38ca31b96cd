"""Types of a request's fields, parsed like FastAPI does for the Python servers.

Those servers parse with pydantic, so its coercions (`"2"` is the number 2) and its messages are
theirs.
"""

from typing import Annotated, Any, Literal, cast

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
)

from simulator.server.bodies.errors import ApiError

Json = dict[str, Any]
_INT64 = 2**63


class FieldError(ApiError):
    """Fields of the wrong type.

    Attributes:
        found: FastAPI's error for each field.
    """

    def __init__(self, found: list[Json]) -> None:
        count = len(found)
        lines = "".join(f"  {entry}\n" for entry in found)
        message = f"{count} validation error{'s' if count > 1 else ''}:\n{lines}".rstrip()
        where = ".".join(str(part) for part in found[0]["loc"])
        super().__init__(400, message, param=where, kind="Bad Request")
        self.found = found


def checked(form: type[BaseModel], body: Json) -> Json:
    """Return a body with its fields parsed as in a server.

    Args:
        form: fields and their types.
        body: body of the request.

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
    """The function of a tool."""

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
    """Fields that all Python servers parse in the same way, in chats and completions."""

    model_config = ConfigDict(extra="allow")
    seed: Annotated[int, Field(ge=-_INT64, lt=_INT64)] | None = None
    stop: str | list[str] | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None


class Vllm(Request):
    """Common fields of vLLM's chats and completions."""

    model: str | None = None
    cache_salt: str | None = None
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
    """`/tokenize` of vLLM."""

    model_config = ConfigDict(extra="allow")
    model: str | None = None
    messages: list[Any] | None = None
    prompt: str | None = None
    return_token_strs: bool | None = False


class VllmTokens(BaseModel):
    """`/detokenize` of vLLM."""

    model_config = ConfigDict(extra="allow")
    model: str | None = None
    tokens: list[int]


class VllmEmbedding(BaseModel):
    """`/v1/embeddings` of vLLM."""

    model_config = ConfigDict(extra="allow")
    model: str | None = None
    cache_salt: str | None = None
    dimensions: Annotated[int, Field(gt=0)] | None = None
    encoding_format: Literal["float", "base64"] = "float"
    input: str | list[str] | list[int] | list[list[int]] | None = None


class VllmScore(BaseModel):
    """`/score` of vLLM. The two texts have four pairs of names."""

    model_config = ConfigDict(extra="allow")
    model: str | None = None
    text_1: str | list[str] = Field(validation_alias=AliasChoices("text_1", "queries", "data_1"))
    text_2: str | list[str] = Field(
        validation_alias=AliasChoices("text_2", "documents", "items", "data_2")
    )


class VllmRank(BaseModel):
    """`/rerank` of vLLM."""

    model_config = ConfigDict(extra="allow")
    model: str | None = None
    query: str
    documents: str | list[str]
    top_n: Annotated[int, Field(ge=0)] = 0


class _ResponseTool(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: str


class _ResponseFunction(_ResponseTool):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


def _tool_type(tool: Any) -> str:
    """Return the tag of a tool, which is a mapping of a body, or was parsed from one."""
    found = cast(Json, tool).get("type") if isinstance(tool, dict) else getattr(tool, "type", None)
    return "FunctionTool" if found == "function" else "Tool"


class _ResponseText(BaseModel):
    model_config = ConfigDict(extra="allow")
    format: dict[str, Any] | None = None


class VllmResponse(BaseModel):
    """`/v1/responses` of vLLM."""

    model_config = ConfigDict(extra="allow")
    model: str | None = None
    input: str | list[dict[str, Any]]
    background: bool | None = False
    ignore_eos: bool = False
    include: list[str] | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: dict[str, Any] | None = None
    parallel_tool_calls: bool | None = True
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    previous_response_id: str | None = None
    priority: Annotated[int, Field(ge=-_INT64, lt=_INT64)] = 0
    reasoning: dict[str, Any] | None = None
    stream: bool | None = False
    temperature: float | None = None
    text: _ResponseText | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] = "auto"
    tools: list[
        Annotated[
            Annotated[_ResponseFunction, Tag("FunctionTool")]
            | Annotated[_ResponseTool, Tag("Tool")],
            Discriminator(_tool_type),
        ]
    ] = Field(default_factory=list[_ResponseTool])
    top_logprobs: int | None = 0
    top_p: float | None = None
    truncation: Literal["auto", "disabled"] | None = "disabled"
    user: str | None = None


class VllmNoAdapter(BaseModel):
    """`/v1/unload_lora_adapter` of vLLM."""

    model_config = ConfigDict(extra="allow")
    lora_name: str


class VllmAdapter(VllmNoAdapter):
    """`/v1/load_lora_adapter` of vLLM."""

    lora_path: str
    load_inplace: bool = False
