"""Mooncake's traces, with the prefix blocks of each prompt."""

import json
from collections.abc import Iterator
from typing import Any, cast

from gke_inference.catalogue.input_error import InputError
from simulator.demand.arrivals import GROWING
from simulator.demand.lines import lines
from simulator.demand.rows import FileTraffic, Recent, Row

BLOCK_TOKENS = 512
FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")
_BLOCKS = 8_000_000


class Mooncake(FileTraffic):
    """Mooncake's traces: a JSON object per line.

    Fields: timestamp in milliseconds, input_length, output_length, and hash_ids, one for each block
    of 512 tokens; equal ones stand for an equal prefix (github.com/kvcache-ai/Mooncake,
    FAST25-release/README.md). Without hash_ids, prompts share nothing.

    A prompt that continues the last block of an earlier one belongs to its prefix group. One that
    leaves an earlier prompt before its end, such as after a common system prompt, starts a group.
    """

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield where each line is and its request."""
        seen: Recent[list[int]] = Recent(_BLOCKS)
        groups = 0
        for number, text in lines(self.path):
            where = f"{self.path}:{number}"
            one = _object(where, text)
            prompt, output = (_whole(where, one, name) for name in FIELDS[1:3])
            blocks = _blocks(where, one.get("hash_ids", []))
            shared, last = 0, None
            for block in blocks:
                found = seen.get(block)
                if found is None:
                    break
                shared, last = shared + 1, found
            tokens = min(shared * BLOCK_TOKENS, max(prompt, 0))
            group = -1
            if blocks:
                # a block is [group, 1 if a block follows it]
                grows = shared < len(blocks)
                if last is None or (grows and last[1]):
                    group, groups = groups, groups + 1
                else:
                    group = last[0]
                if last is not None and grows:
                    last[1] = 1
                for at, block in enumerate(blocks[shared:], shared + 1):
                    seen.put(block, [group, int(at < len(blocks))])
            at_seconds = _whole(where, one, "timestamp") / 1000
            prefix = -1 if group < 0 else GROWING + group
            yield where, Row(at_seconds, prompt, output, prefix=prefix, prefix_tokens=tokens)


def _object(where: str, text: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise InputError(where, f"must be a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise InputError(where, "must be a JSON object", type(found).__name__)
    one = cast("dict[str, Any]", found)
    for name in FIELDS[:3]:
        if name not in one:
            raise InputError(f"{where}: {name}", "is required")
    return one


def _whole(where: str, one: dict[str, Any], name: str) -> int:
    value = one[name]
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value // 1:
        raise InputError(f"{where}: {name}", "must be a whole number", value)
    return int(value)


def _blocks(where: str, value: Any) -> list[int]:
    if not isinstance(value, list) or not all(
        isinstance(each, int) for each in cast("list[Any]", value)
    ):
        raise InputError(f"{where}: hash_ids", "must be a list of whole numbers")
    return cast("list[int]", value)
