"""Samples of text from a file with a JSON object in each line."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

_KINDS: Final = "text; prompt and completion; or messages"
IGNORED: Final = -100
"""Label of tokens that a model does not learn (`ignore_index` of PyTorch's cross entropy)."""


class SampleError(ValueError):
    """A line that is no sample; the message has line, rule and value."""


@dataclass(frozen=True)
class Tokens:
    """A sample as a model reads it."""

    ids: list[int]
    labels: list[int]
    """The same, with `IGNORED` for what the model does not learn."""


def read_samples(lines: Iterable[str], most: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the samples of a file.

    Raises:
        SampleError: A line is none, or there is no line.
    """
    count = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if most is not None and count >= most:
            return
        yield _sample(number, line)
        count += 1
    if not count:
        raise SampleError("must have at least one sample, got none")


def _sample(number: int, line: str) -> dict[str, Any]:
    try:
        content: Any = json.loads(line)
    except ValueError as error:
        raise SampleError(f"line {number}: must be JSON, got {error}") from None
    if not isinstance(content, dict):
        raise SampleError(f"line {number}: must be an object with {_KINDS}, got {content!r:.60}")
    found = cast("dict[str, Any]", content)
    if not any(_has(found, fields) for fields in (("text",), ("prompt", "completion"))):
        messages: Any = found.get("messages")
        if not isinstance(messages, list) or not messages:
            names = ", ".join(sorted(found)) or "nothing"
            raise SampleError(f"line {number}: must be an object with {_KINDS}, got {names}")
    return found


def _has(sample: dict[str, Any], fields: tuple[str, ...]) -> bool:
    return all(isinstance(sample.get(field), str) and sample[field] for field in fields)


def tokens_of(sample: dict[str, Any], tokenizer: Any, most: int) -> Tokens:
    """Return a sample as tokens.

    Of `prompt` and `completion`, the model learns the completion; of `messages`, those after the
    last one of the user; of `text`, everything.

    Args:
        sample: One of `read_samples`.
        tokenizer: Tokenizer of transformers.
        most: Maximum number of tokens; the rest is cut off.

    Raises:
        SampleError: The tokenizer has no chat template for messages.
    """
    end = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
    if "messages" in sample:
        head, ids = _chat(sample["messages"], tokenizer)
    elif "prompt" in sample:
        head = list(tokenizer(sample["prompt"]).input_ids)
        ids = [*head, *tokenizer(sample["completion"], add_special_tokens=False).input_ids, *end]
    else:
        head, ids = [], [*tokenizer(sample["text"]).input_ids, *end]
    labels = [*(IGNORED for _ in head), *ids[len(head) :]]
    return Tokens(ids[:most], labels[:most])


def _chat(messages: list[dict[str, Any]], tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the tokens before the last answer, and all of them."""
    if not tokenizer.chat_template:
        raise SampleError("messages: must be of a model with a chat template, got one without")
    users = [at for at, message in enumerate(messages) if message.get("role") == "user"]
    split = users[-1] + 1 if users else 0
    ids = _templated(messages, tokenizer)
    if not split or split == len(messages):
        return [], ids
    head = _templated(messages[:split], tokenizer, add_generation_prompt=True)
    return (head if ids[: len(head)] == head else []), ids


def _templated(messages: list[dict[str, Any]], tokenizer: Any, **more: Any) -> list[int]:
    text = tokenizer.apply_chat_template(messages, tokenize=False, **more)
    return list(tokenizer(text, add_special_tokens=False).input_ids)
