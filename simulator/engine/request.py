"""One request on its way through the engine."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field


class FinishReason(enum.StrEnum):
    """Why a request ended; the labels of `vllm:request_success_total`."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(frozen=True)
class RemoteKv:
    """The KV of a prompt on another engine, as `kv_transfer_params` names it."""

    host: str
    port: int
    request_id: str


@dataclass(eq=False)
class Request:
    """A sequence of tokens and what became of it; times are seconds of the engine's clock."""

    id: str
    prompt: Sequence[int]
    max_tokens: int
    arrival: float
    adapter: str | None = None
    priority: int = 0
    """Lower goes first under `--scheduling-policy priority`."""
    pooling: bool = False
    """Answered with a vector after prefill: no tokens are generated."""
    output: Sequence[int] = ()
    """The tokens it will generate, at most `max_tokens`; where there are fewer, the text ends by
    itself (`stop`)."""
    block_salt: int = 0
    streamed: bool = True
    """Whether its tokens are sent as they come."""
    tell_at: int = 1
    """Tokens generated at which whoever waits for it is told; at its end it is told in any case."""
    remote: RemoteKv | None = None
    """Where another engine holds the KV of the prompt; None once it is here, or given up."""
    keeps_kv: bool = False
    """Its blocks outlive it, for another engine to read."""
    loading: bool = False
    """Its blocks are held and are being filled from the other engine."""
    loaded_tokens: int = 0
    """Prompt tokens whose KV came from another engine."""

    trace: str = ""
    """Id of the trace it is part of; empty where its client began none."""

    computed: int = 0
    """Tokens whose KV is in the cache, the cached prefix included."""
    generated: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    blocks: list[int] = field(default_factory=list[int])
    hashes: list[int] = field(default_factory=list[int])
    """Hashes of the full blocks, first the prompt's, then the answer's."""
    published: int = 0
    first_scheduled: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    finished: FinishReason | None = None

    @property
    def length(self) -> int:
        """Tokens of prompt and answer so far."""
        return len(self.prompt) + self.generated

    @property
    def remaining(self) -> int:
        """Tokens it will still generate."""
        return min(self.max_tokens, len(self.output)) - self.generated

    @property
    def pending(self) -> int:
        """Tokens still to be computed before the next one can be sampled."""
        return self.length - self.computed

    def tokens(self, start: int, end: int) -> Sequence[int]:
        """Return some of the tokens of prompt and answer."""
        prompt = len(self.prompt)
        if end <= prompt:
            return self.prompt[start:end]
        return [*self.prompt[start:], *self.output[max(0, start - prompt) : end - prompt]]

    @property
    def decoding(self) -> bool:
        """Whether the prompt is behind it."""
        return self.generated > 0 and self.pending == 1
