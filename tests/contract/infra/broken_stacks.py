"""Broken stacks: small edits of a stack that works, each with the message it must give.

A file of `broken/` says `base` (a stack of stacks/, or `teams/NAME` of docs/examples), `edits` (a
place, and a value or `remove`) and `expect`, a part of the message.
"""

import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from infra.reading.load import KEY, PROJECT, STACKS, platform_of
from tests.shipped_stacks import EXAMPLES

FOLDER = Path(__file__).parent / "broken"


@dataclass(frozen=True)
class BrokenStack:
    """One stack that must be refused."""

    name: str
    base: str
    expect: str
    platform: dict[str, Any]

    def text(self) -> str:
        """Return it as a whole stack file, for a run with the engine."""
        return yaml.safe_dump({"config": {f"{PROJECT}:{KEY}": self.platform}}, sort_keys=False)


@cache
def broken_stacks() -> tuple[BrokenStack, ...]:
    """Return every broken stack, by the name of its file."""
    return tuple(_read(file) for file in sorted(FOLDER.glob("*.yaml")))


def folder_of(base: str) -> Path:
    """Return the folder of a stack that others are made of."""
    example = base.rpartition("/")[0]
    return EXAMPLES / example if example else STACKS


@cache
def _platform(base: str) -> dict[str, Any]:
    return platform_of(folder_of(base) / f"Pulumi.{base.rpartition('/')[2]}.yaml")


def edited(base: str, edits: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the platform of a stack of stacks/ after edits; a place is a list of keys."""
    platform = copy.deepcopy(_platform(base))
    for edit in edits:
        *way, last = edit["at"]
        place: Any = platform
        for key in way:
            place = place[key]
        if edit.get("remove"):
            del place[last]
        else:
            place[last] = edit["value"]
    return platform


def _read(file: Path) -> BrokenStack:
    document = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return BrokenStack(
        name=file.stem,
        base=document["base"],
        expect=document["expect"],
        platform=edited(document["base"], document["edits"]),
    )
