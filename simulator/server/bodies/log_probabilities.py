"""Log probabilities of simulated tokens, in the forms of vLLM's responses.

A simulated model has no distribution. Each token gets an invented one, the same in every process:
the token itself is the most probable, other words follow, and the sum stays below one. The forms
are those of vLLM 0.32.0 (docs/real-engine.md).
"""

import math
import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simulator.server.bodies import text
from simulator.server.bodies.errors import ApiError

Json = dict[str, Any]
MOST = 20
"""vLLM's default of `--max-logprobs`."""


@dataclass(frozen=True)
class Position:
    """A token with its log probability and those of the most probable others."""

    piece: str
    value: float
    others: tuple[tuple[str, float], ...]

    def alternatives(self) -> list[tuple[str, float]]:
        """Return the token and the others, the most probable first."""
        return [(self.piece, self.value), *self.others]


def check(count: int, name: str, kind: str, most: int) -> int:
    """Return the requested number of alternatives.

    Args:
        count: requested number; -1 means the whole vocabulary.
        name: name of the field.
        kind: what vLLM calls it in its message: `sample` or `prompt`.
        most: value of `--max-logprobs`; -1 means no limit.

    Raises:
        ApiError: 400, in vLLM's words (`sampling_params.py`, `completion/protocol.py`).
    """
    if count < -1:
        raise _invalid(f"`{name}` must be a positive value or -1.", name, count)
    wanted = text.VOCABULARY if count == -1 else count
    if most != -1 and wanted > most:
        name = "prompt_logprobs" if kind == "prompt" else "logprobs"
        said = f"Requested {kind} logprobs of {wanted}, which is greater than max allowed: {most}"
        raise _invalid(said, name, wanted)
    return wanted


def _invalid(message: str, name: str, value: int) -> ApiError:
    return ApiError(400, f"{message} (parameter={name}, value={value})", param=name)


def positions(pieces: Sequence[str], count: int) -> list[Position]:
    """Return the tokens of a text with their log probabilities.

    Args:
        pieces: text of each token.
        count: number of most probable tokens to name, the token itself included.
    """
    return [_position(piece, at, count) for at, piece in enumerate(pieces)]


def _position(piece: str, at: int, count: int) -> Position:
    choose = random.Random(zlib.crc32(piece.encode(), at))  # noqa: S311  # invented, not secret
    share = choose.uniform(0.35, 0.95)
    # 1/(1*2) + 1/(2*3) + ... is below one, and its first term no more than the token's own share
    others = tuple(
        (other, math.log((1 - share) / (rank * (rank + 1))))
        for rank, other in enumerate(text.other_words(piece, choose, max(0, count - 1)), 1)
    )
    return Position(piece, math.log(share), others)


def of_completion(found: Sequence[Position | None], pieces: Sequence[str], offset: int) -> Json:
    """Return `logprobs` of a completion's choice.

    Args:
        found: position of each token; None for the first of a prompt, which follows nothing.
        pieces: text of each token.
        offset: characters before the first token.
    """
    offsets: list[int] = []
    for piece in pieces:
        offsets.append(offset)
        offset += len(piece)
    return {
        "text_offset": offsets,
        "token_logprobs": [None if each is None else each.value for each in found],
        "tokens": list(pieces),
        "top_logprobs": [None if each is None else dict(each.alternatives()) for each in found],
    }


def of_text(found: Sequence[Position], count: int) -> list[Json]:
    """Return the tokens of a chat's choice or of a response, with `count` alternatives of each."""
    return [_entry(each, count) for each in found]


def _entry(found: Position, count: int) -> Json:
    top = [_token(*each) for each in found.alternatives()[:count]]
    return {**_token(found.piece, found.value), "top_logprobs": top}


def _token(piece: str, value: float) -> Json:
    return {"token": piece, "logprob": value, "bytes": list(piece.encode())}


def of_prompt(found: Sequence[Position | None]) -> list[Json | None]:
    """Return `prompt_logprobs`: the tokens of a prompt by their IDs; None for the first."""
    return [
        None
        if each is None
        else {
            str(text.token(piece)): {"logprob": value, "rank": rank, "decoded_token": piece}
            for rank, (piece, value) in enumerate(each.alternatives(), 1)
        }
        for each in found
    ]
