"""Text that is clearly simulated, and its tokens.

The tokenizer is a stand-in with a realistic density (about 1.3 tokens per English word). It is
reversible: a response that is part of the next prompt has the same tokens, as a multi-turn chat
with a prefix cache requires.
"""

import random
import re
import zlib
from functools import lru_cache

_PIECE = re.compile(r"\s?[A-Za-z]{1,5}|\s?\d{1,3}|\s?[^\sA-Za-z\d]|\s")
VOCABULARY = 128_000
_WORDS_TEXT = """
the model then reads each block of text and finds what it needs so that one reply can be made from
parts which were seen in a batch with other users while the cache keeps what both share and the
queue grows until more chips come on time for all to see it
"""
_WORDS = tuple(word for word in _WORDS_TEXT.split() if len(word) <= 5)  # one token each
_SPACED = tuple(" " + word for word in _WORDS)
_SHORTEST, _LONGEST = 40, 200
_PART = 1024
"""Minimum length of a cached part of a text, in characters."""
_SEEN: dict[int, str] = {}
"""Pieces by their IDs."""
_BORDER = re.compile(r"\S\s")


def pieces(text: str) -> list[str]:
    """Return the pieces of a text, one per token."""
    return _PIECE.findall(text)


@lru_cache(maxsize=2**16)
def token(piece: str) -> int:
    """Return the ID of a piece, which is the same in every process."""
    number = zlib.crc32(piece.encode()) % VOCABULARY
    _SEEN[number] = piece
    return number


def piece_of(number: int) -> str:
    """Return the piece of an ID; a placeholder if this process has not seen the piece.

    The IDs are hashes, so that two pieces can have one ID: the last one seen counts.
    """
    return _SEEN.get(number, f"<|{number}|>")


def other_words(piece: str, choose: random.Random, count: int) -> list[str]:
    """Return `count` different words that could stand in the place of a piece."""
    words = [word for word in dict.fromkeys(_SPACED) if word != piece]
    found = choose.sample(words, min(count, len(words)))
    return found + [f" {number}" for number in range(count - len(found))]


def tokenize(text: str) -> list[int]:
    """Return the tokens of a text.

    Many prompts have a common prefix, so a text is processed in cached parts. A part ends before
    white space that follows other characters, so that no piece spans two parts.
    """
    out: list[int] = []
    start = 0
    while len(text) - start > _PART:
        border = _BORDER.search(text, start + _PART)
        if border is None:
            break
        end = border.start() + 1
        out += _tokens_of_part(text[start:end])
        start = end
    out += map(token, pieces(text[start:]))
    return out


@lru_cache(maxsize=2**13)
def _tokens_of_part(text: str) -> tuple[int, ...]:
    return tuple(map(token, pieces(text)))


def answer(
    model: str, prompt: list[int], most: int, *, ignore_end: bool = False, choice: int = 0
) -> list[str]:
    """Return at most `most` pieces of a response, the same for the same model and prompt.

    Args:
        model: name in the response.
        prompt: tokens that determine the words and the length.
        most: maximum number of tokens.
        ignore_end: whether to write until `most` instead of ending earlier (`ignore_eos`).
        choice: index of the response among several to one prompt.
    """
    seed = zlib.crc32(",".join(map(str, prompt[-64:])).encode(), len(prompt)) + choice
    choose = random.Random(seed)  # noqa: S311  # words, not secrets
    length = most if ignore_end else min(most, choose.randint(_SHORTEST, _LONGEST))
    out = pieces(f"This is a simulated answer of {model}:")
    out += choose.choices(_SPACED, k=max(0, length - 1 - len(out)))
    if len(out) < length:
        out.append(".")
    return out[:length]


def until_stop(out: list[str], stops: list[str]) -> tuple[list[str], str | None]:
    """Cut a response before the first stop string.

    Returns:
        The pieces up to the token that completes the stop string, with the last one cut, and the
        stop string.
    """
    text = "".join(out)
    found = [(text.find(stop), stop) for stop in stops if stop and stop in text]
    if not found:
        return out, None
    at, stop = min(found)
    end = at + len(stop)
    kept: list[str] = []
    position = 0
    for piece in out:
        kept.append(piece[: max(0, at - position)])
        position += len(piece)
        if position >= end:
            break
    return kept, stop
