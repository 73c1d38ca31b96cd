"""Request fields of Triton's OpenAI front end: `schemas/openai.py` at v2.70.0.

Unlisted fields are errors.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from simulator.server.bodies.fields import Function, NamedTool, StreamOptions

_INT64 = 2**63
_Penalty = Annotated[float, Field(ge=-2, le=2)]
_Count = Annotated[int, Field(ge=0)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: str
    frequency_penalty: _Penalty | None = 0
    ignore_eos: bool | None = False
    logit_bias: dict[str, int] | None = None
    max_tokens: _Count | None = None
    min_tokens: _Count | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = 1
    presence_penalty: _Penalty | None = 0
    seed: Annotated[int, Field(ge=-_INT64, lt=_INT64)] | None = None
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 1
    top_p: Annotated[float, Field(ge=0, le=1)] | None = 1
    user: str | None = None


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["image_url", "text"]
    text: str = ""


class _Message(BaseModel):
    model_config = ConfigDict(extra="allow")
    role: Literal["system", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None


class _Tool(BaseModel):
    type: str
    function: Function


class _ResponseFormat(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["text", "json_object"] = "text"


class Chat(_Body):
    """`CreateChatCompletionRequest`."""

    messages: Annotated[list[_Message], Field(min_length=1)]
    function_call: Any = None
    functions: list[Function] | None = None
    logprobs: bool | None = False
    max_completion_tokens: _Count | None = None
    response_format: _ResponseFormat | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    tools: list[_Tool] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None


class Completion(_Body):
    """`CreateCompletionRequest`."""

    prompt: str | list[str] | list[int] | list[list[Any]]
    best_of: Annotated[int, Field(ge=0, le=20)] | None = 1
    echo: bool | None = False
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    suffix: str | None = None


class Embedding(BaseModel):
    """`CreateEmbeddingRequest`."""

    model_config = ConfigDict(extra="forbid")
    input: str | list[str]
    model: str
    dimensions: int | None = None
    encoding_format: str = "float"
    user: str | None = None
