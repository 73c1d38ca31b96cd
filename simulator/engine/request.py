"""A request in the engine."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from simulator.engine.kv_tiers import Load


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
    """A sequence of tokens and its outcome, with times in seconds of the engine's clock."""

    id: str
    prompt: Sequence[int]
    max_tokens: int
    arrival: float
    adapter: str | None = None
    priority: int = 0
    """Priority under `--scheduling-policy priority`; lower values run first."""
    pooling: bool = False
    """Whether the response is a vector after prefill, without generated tokens."""
    output: Sequence[int] = ()
    """The tokens it will generate, at most `max_tokens`; where there are fewer, the text ends by
    itself (`stop`)."""
    block_salt: int = 0
    streamed: bool = True
    """Whether its tokens are sent as they come."""
    tell_at: int = 1
    """Number of generated tokens at which its waiter is notified; always notified at the end."""
    remote: RemoteKv | None = None
    """Location of the prompt's KV on another engine; None once it is transferred or abandoned."""
    keeps_kv: bool = False
    """Whether its blocks are kept for another engine to read."""
    loading: bool = False
    """Whether its blocks are being filled from the other engine."""
    first_step: int = 0
    """First step of its engine that can compute it; the one before it was scheduled too early."""
    loaded_tokens: int = 0
    """Prompt tokens whose KV came from another engine, or from a lower tier."""
    load: Load | None = None
    """Its blocks in lower tiers, while and after they are read."""

    trace: str = ""
    """ID of its trace; empty without a trace."""

    computed: int = 0
    """Tokens whose KV is in the cache, the cached prefix included."""
    generated: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    blocks: list[int] = field(default_factory=list[int])
    hashes: list[int] = field(default_factory=list[int])
    """Hashes of the full blocks, first the prompt's, then the response's."""
    published: int = 0
    first_scheduled: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    finished: FinishReason | None = None

    @property
    def length(self) -> int:
        """Number of prompt and response tokens so far."""
        return len(self.prompt) + self.generated

    @property
    def remaining(self) -> int:
        """Number of tokens still to generate."""
        return min(self.max_tokens, len(self.output)) - self.generated

    @property
    def pending(self) -> int:
        """Tokens still to be computed before the next one can be sampled."""
        return self.length - self.computed

    def tokens(self, start: int, end: int) -> Sequence[int]:
        """Return a range of the prompt and response tokens."""
        prompt = len(self.prompt)
        if end <= prompt:
            return self.prompt[start:end]
        return [*self.prompt[start:], *self.output[max(0, start - prompt) : end - prompt]]

    @property
    def decoding(self) -> bool:
        """Whether its prompt is computed."""
        return self.generated > 0 and self.pending == 1
