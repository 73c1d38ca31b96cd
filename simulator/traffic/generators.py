"""Streams of requests, the same for the same seed.

Lengths are in tokens; a token of a generated text is four characters, a space and three letters:
that is what the endpoint picker reckons with (`averageCharactersPerToken`, v1.2.0), and the
simulated engine's tokenizer cuts it the same way.
"""

import random
import string
from collections.abc import Iterator, Sequence
from functools import lru_cache

from simulator.traffic.asks import Ask, Prompt

_LETTERS = string.ascii_lowercase


@lru_cache(maxsize=4096)
def text_of(tokens: int, seed: str) -> str:
    """Return a text of so many tokens; no two seeds give texts with a common start."""
    choose = random.Random(seed)  # noqa: S311  # words, not secrets
    letters = choose.choices(_LETTERS, k=3 * tokens)
    found = [" "] * (4 * tokens)
    found[1::4], found[2::4], found[3::4] = letters[::3], letters[1::3], letters[2::3]
    return "".join(found)


def poisson_times(rate: float, seconds: float, seed: int, start: float = 0.0) -> list[float]:
    """Return arrival times of a Poisson process, a fixed number of them: rate times seconds.

    As the benchmark of llm-d does, a stage has its number of requests whatever the gaps; they are
    scaled so that the stage lasts its time. Paired runs then offer exactly the same load.

    Raises:
        ValueError: a rate or a duration that gives no request.
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
) -> Iterator[Ask]:
    """Yield prompts that share long prefixes: groups of users with the same system prompt.

    The defaults are llm-d's ladder. Each round goes through all prompts in a new order.

    Args:
        rate: requests a second, over `seconds` from `start` on.
        seconds: of the stage.
        seed: of arrivals and order.
        model: that is asked for.
        groups: different prefixes.
        prompts_per_group: different questions for each of them.
        prefix_tokens: of a prefix.
        question_tokens: of a question.
        output_tokens: of an answer.
        start: in seconds.
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
        yield Ask(at, model, Prompt(prefix, tail), output_tokens, f"g{group}")


def mixed_lengths(
    *,
    rate: float,
    seconds: float,
    seed: int,
    model: str = "model",
    prompts: Sequence[tuple[float, int, int]],
    outputs: Sequence[tuple[float, int, int]],
    start: float = 0.0,
) -> Iterator[Ask]:
    """Yield prompts that share nothing, of lengths drawn from ranges.

    Args:
        rate: requests a second.
        seconds: of the stage.
        seed: of everything.
        model: asked for.
        prompts: (share, least, most) tokens; shares in proportion.
        outputs: the same for answers.
        start: when the stage begins.
    """
    choose = random.Random(f"lengths/{seed}/{rate}")  # noqa: S311
    for number, at in enumerate(poisson_times(rate, seconds, seed, start)):
        prompt = text_of(_length(choose, prompts), f"unique/{seed}/{rate}/{number}")
        yield Ask(at, model, Prompt("", prompt), _length(choose, outputs))


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
) -> Iterator[Ask]:
    """Yield requests for LoRA adapters, popular ones more often.

    Args:
        rate: requests a second.
        seconds: of the stage.
        seed: of everything.
        adapters: names, the most popular first.
        skew: exponent of the popularity: 0 all alike, 1 Zipf.
        prompt_tokens: of a prompt; prompts share nothing.
        output_tokens: of an answer.
        start: when the stage begins.
    """
    choose = random.Random(f"adapters/{seed}/{rate}")  # noqa: S311
    weights = [1 / (rank + 1) ** skew for rank in range(len(adapters))]
    for number, at in enumerate(poisson_times(rate, seconds, seed, start)):
        adapter = choose.choices(adapters, weights=weights)[0]
        prompt = text_of(prompt_tokens, f"adapter/{seed}/{rate}/{number}")
        yield Ask(at, adapter, Prompt("", prompt), output_tokens, adapter)
