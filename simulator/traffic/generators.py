"""Generators of request streams, which are reproducible by seed.

Lengths are in tokens. A token of a generated text is four characters, a space and three letters.
The endpoint picker assumes the same length (`averageCharactersPerToken`, v1.5.0), and the simulated
engine's tokenizer splits the text in the same way.
"""

import random
import string
from collections.abc import Iterator, Sequence
from functools import lru_cache

from simulator.traffic.asks import Prompt, TraceEntry

_OF_BYTE = bytes(ord(string.ascii_lowercase[byte % 26]) for byte in range(256))
"""The letter for each byte."""


@lru_cache(maxsize=4096)
def text_of(tokens: int, seed: str) -> str:
    """Return a text of a number of tokens; texts of different seeds have no common prefix."""
    choose = random.Random(seed)  # noqa: S311  # words, not secrets
    letters = choose.randbytes(3 * tokens).translate(_OF_BYTE).decode()
    found = [" "] * (4 * tokens)
    found[1::4], found[2::4], found[3::4] = letters[::3], letters[1::3], letters[2::3]
    return "".join(found)


def poisson_times(rate: float, seconds: float, seed: int, start: float = 0.0) -> list[float]:
    """Return arrival times of a Poisson process with a fixed count: rate times seconds.

    As in llm-d's benchmark, a stage has a fixed number of requests, with gaps scaled to the
    duration of the stage. Paired runs therefore have exactly the same load.

    Raises:
        ValueError: rate and duration give no request.
    """
    count = round(rate * seconds)
    if count < 1:
        raise ValueError(f"rate times seconds must give a request, got {rate} x {seconds}")
    choose = random.Random(f"arrivals/{seed}/{rate}")  # noqa: S311
    gaps = [choose.expovariate(rate) for _ in range(count)]
    scale = seconds / sum(gaps)
    times: list[float] = []
    now = start
    for gap in gaps:
        times.append(now)
        now += gap * scale
    return times


def shared_prefix(
    *,
    rate: float,
    seconds: float,
    seed: int,
    model: str = "model",
    groups: int = 150,
    prompts_per_group: int = 5,
    prefix_tokens: int = 6000,
    question_tokens: int = 1200,
    output_tokens: int = 1000,
    start: float = 0.0,
    texts: str = "",
) -> Iterator[TraceEntry]:
    """Yield prompts with long shared prefixes: groups of users with the same system prompt.

    The defaults are those of llm-d's ladder. Each round has all prompts in a new order.

    Args:
        rate: requests per second, for `seconds` from `start` on.
        seconds: of the stage.
        seed: seed of arrivals and order.
        model: requested model.
        groups: number of different prefixes.
        prompts_per_group: number of different questions per prefix.
        prefix_tokens: tokens of a prefix.
        question_tokens: tokens of a question.
        output_tokens: of an answer.
        start: start of the stage in seconds.
        texts: streams with the same value share prefixes and questions.
    """
    choose = random.Random(f"order/{seed}/{rate}/{texts}")  # noqa: S311
    deck: list[tuple[int, int]] = []
    for at in poisson_times(rate, seconds, seed, start):
        if not deck:
            deck = [(g, q) for g in range(groups) for q in range(prompts_per_group)]
            choose.shuffle(deck)
        group, question = deck.pop()
        prefix = text_of(prefix_tokens, f"{texts}/prefix/{group}")
        tail = text_of(question_tokens, f"{texts}/question/{group}/{question}")
        yield TraceEntry(at, model, Prompt(prefix, tail), output_tokens, f"g{group}")


def mixed_lengths(
    *,
    rate: float,
    seconds: float,
    seed: int,
    model: str = "model",
    prompts: Sequence[tuple[float, int, int]],
    outputs: Sequence[tuple[float, int, int]],
    start: float = 0.0,
) -> Iterator[TraceEntry]:
    """Yield unrelated prompts with lengths from ranges.

    Args:
        rate: requests a second.
        seconds: of the stage.
        seed: of everything.
        model: requested model.
        prompts: (share, minimum, maximum) tokens; shares are relative.
        outputs: the same for responses.
        start: when the stage begins.
    """
    choose = random.Random(f"lengths/{seed}/{rate}")  # noqa: S311
    for number, at in enumerate(poisson_times(rate, seconds, seed, start)):
        prompt = text_of(_length(choose, prompts), f"unique/{seed}/{rate}/{number}")
        yield TraceEntry(at, model, Prompt("", prompt), _length(choose, outputs))


def _length(choose: random.Random, ranges: Sequence[tuple[float, int, int]]) -> int:
    _, least, most = choose.choices(ranges, weights=[share for share, _, _ in ranges])[0]
    return choose.randint(least, most)


def multi_adapter(
    *,
    rate: float,
    seconds: float,
    seed: int,
    adapters: Sequence[str],
    skew: float = 1.0,
    prompt_tokens: int = 500,
    output_tokens: int = 200,
    start: float = 0.0,
) -> Iterator[TraceEntry]:
    """Yield requests for LoRA adapters by popularity.

    Args:
        rate: requests a second.
        seconds: of the stage.
        seed: of everything.
        adapters: names, most popular first.
        skew: exponent of the popularity; 0 for uniform, 1 for Zipf.
        prompt_tokens: tokens of a prompt; prompts are unrelated.
        output_tokens: of an answer.
        start: when the stage begins.
    """
    choose = random.Random(f"adapters/{seed}/{rate}")  # noqa: S311
    weights = [1 / (rank + 1) ** skew for rank in range(len(adapters))]
    for number, at in enumerate(poisson_times(rate, seconds, seed, start)):
        adapter = choose.choices(adapters, weights=weights)[0]
        prompt = text_of(prompt_tokens, f"adapter/{seed}/{rate}/{number}")
        yield TraceEntry(at, adapter, Prompt("", prompt), output_tokens, adapter)
