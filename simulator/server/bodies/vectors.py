"""Vectors of texts, and how similar two of them are."""

import math
import random
from functools import lru_cache

_WIDTH = 768


def embedding(tokens: list[int], width: int | None) -> list[float]:
    """Return a unit vector that is near those of texts with the same words.

    Unlike a model, it does not place texts with the same meaning in other words near each other.
    """
    size = width or _WIDTH
    values = [
        sum(column) for column in zip(*(_direction(one, size) for one in tokens), strict=True)
    ]
    norm = math.sqrt(sum(value * value for value in values))
    return [value / norm for value in values]


@lru_cache(maxsize=2**12)
def _direction(token: int, size: int) -> tuple[float, ...]:
    """Return the direction of a token; those of two tokens are nearly orthogonal."""
    choose = random.Random(token)  # noqa: S311  # vectors, not secrets
    return tuple(choose.gauss(0, 1) for _ in range(size))


def similarity(one: list[float], other: list[float]) -> float:
    """Return the cosine of the angle between two unit vectors."""
    return sum(a * b for a, b in zip(one, other, strict=True))
