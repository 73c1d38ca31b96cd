"""Text that is plainly simulated, and the tokens it is counted in.

The tokenizer is a stand-in of the right density (about 1.3 tokens an English word), the same in
both directions: an answer that comes back as part of the next prompt is the same tokens, as a
multi-turn chat with a prefix cache needs it.
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
"""Shortest part of a text that is remembered, in characters."""
_BORDER = re.compile(r"\S\s")


def pieces(text: str) -> list[str]:
    """Return the pieces of a text, one for each token."""
    return _PIECE.findall(text)


@lru_cache(maxsize=2**16)
def token(piece: str) -> int:
    """Return the number of a piece, the same in every process."""
    return zlib.crc32(piece.encode()) % VOCABULARY


def tokenize(text: str) -> list[int]:
    """Return the tokens of a text.

    Many prompts begin alike, so a text is read in parts, and parts seen before are remembered. A
    part ends before white space that follows something else: no piece reaches across.
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


def answer(model: str, prompt: list[int], most: int, *, ignore_end: bool = False) -> list[str]:
    """Return the pieces of an answer, at most `most`; the same for the same model and prompt.

    Args:
        model: name that the answer mentions.
        prompt: its tokens choose the words and the length.
        most: tokens allowed.
        ignore_end: write until `most` instead of ending like a text (`ignore_eos`).
    """
    seed = zlib.crc32(",".join(map(str, prompt[-64:])).encode(), len(prompt))
    choose = random.Random(seed)  # noqa: S311  # words, not secrets
    length = most if ignore_end else min(most, choose.randint(_SHORTEST, _LONGEST))
    out = pieces(f"This is a simulated answer of {model}:")
    out += choose.choices(_SPACED, k=max(0, length - 1 - len(out)))
    if len(out) < length:
        out.append(".")
    return out[:length]


def until_stop(out: list[str], stops: list[str]) -> tuple[list[str], str | None]:
    """Cut an answer before the first of the stop strings.

    Returns:
        The pieces up to the token that completes the stop string, the last of them cut, and the
        stop string that was found.
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
