"""Speculative decoding: arguments and values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from gke_inference.intent.readers import whole


class SpeculativeArgs(TypedDict):
    """Speculative decoding: the engine proposes several tokens and verifies them in one step."""

    method: str
    """`ngram` repeats what followed the same words in the prompt; `draft` runs a smaller model;
    `eagle3` runs an EAGLE-3 head; `mtp` runs the model's own layers for further tokens."""
    tokens: int
    """Number of tokens proposed per step, 1 to 16."""
    weights: NotRequired[str]
    """`gs://BUCKET/PATH` of the draft model or EAGLE-3 head. Required for `draft` and `eagle3`,
    otherwise not allowed."""


@dataclass(frozen=True)
class Guessing:
    """Speculative decoding."""

    method: str
    """`ngram` or `draft`."""
    tokens: int
    weights: str | None = None
    """`gs://BUCKET/PATH` of the draft model."""


def speculative_of(guess: Mapping[str, Any] | None) -> Guessing | None:
    """Return speculative decoding as in arguments, or None if there is none.

    Raises:
        InputError: The number of tokens is out of its range.
    """
    if guess is None:
        return None
    tokens = whole(guess, "tokens", 1, 16, where="speculative.")
    return Guessing(str(guess["method"]), tokens, guess.get("weights"))
