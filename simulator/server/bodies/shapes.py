"""Keys of vLLM's responses that are always null in the simulation.

Clients with strict schemas, and tests, see the same keys as from the real server: vLLM 0.32.0,
compared key by key (docs/real-engine.md).
"""

from typing import Any

from twin.engines.vllm_flags import version

MESSAGE: dict[str, Any] = dict.fromkeys(
    ("refusal", "annotations", "audio", "function_call", "reasoning")
)
"""Keys of a chat's message."""
CHAT_CHOICE: dict[str, Any] = dict.fromkeys(("token_ids", "routed_experts"))
"""Keys of a chat's choice."""
COMPLETION_CHOICE: dict[str, Any] = dict.fromkeys(
    ("token_ids", "prompt_logprobs", "prompt_token_ids", "routed_experts")
)
"""Keys of a completion's choice."""
COMPLETION: dict[str, Any] = dict.fromkeys(("kv_transfer_params", "ec_transfer_params", "metrics"))
"""Keys of a completion."""
CHAT: dict[str, Any] = {
    **dict.fromkeys(("prompt_logprobs", "prompt_token_ids", "prompt_text")),
    **COMPLETION,
}
"""Keys of a chat."""
CHAT_BEGINNING: dict[str, Any] = dict.fromkeys(("prompt_token_ids", "prompt_text"))
"""Keys of the first event of a streamed chat."""


def chunk_choice(*, chat: bool, first: bool) -> dict[str, Any]:
    """Return the keys of a choice in a stream event; `first` is the event with the role."""
    if not chat:
        return dict.fromkeys(("stop_reason", "prompt_token_ids", "token_ids"))
    return {} if first else {"token_ids": None}


def fingerprint() -> str:
    """Return `system_fingerprint`: vLLM's is its version and a hash of the configuration."""
    return f"vllm-{version()}-simulated"
