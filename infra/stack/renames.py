"""Renamed words of stack files, and how a text that has an old one is read."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import metadata
from typing import Final

import yaml

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from gke_inference.catalogue.user_yaml import UserLoader

Location = tuple[str | int, ...]


class Kind(StrEnum):
    """What is renamed."""

    KEY = "key"
    VALUE = "value"


@dataclass(frozen=True)
class Rename:
    """A key of a stack, or a value of one, that has a new name."""

    kind: Kind
    path: str
    """Keys from the root, `*` for any name or entry of a list: `models.*.pictures`."""
    new: str
    """The new key or value; a key stays where it is."""
    since: str
    """Minor version that has the new word first, such as `0.2`; it still accepts the old one."""
    value: str = ""
    """The old value, if a value is renamed."""

    @property
    def old(self) -> str:
        """The old key or value."""
        return self.value if self.kind is Kind.VALUE else self.path.rpartition(".")[2]

    @property
    def name(self) -> str:
        """The old name on the list of public names, such as `models.*.engine=sglang`."""
        return f"{self.path}={self.value}" if self.kind is Kind.VALUE else self.path

    @property
    def new_name(self) -> str:
        """The new name on that list."""
        if self.kind is Kind.VALUE:
            return f"{self.path}={self.new}"
        return self.path.removesuffix(self.old) + self.new

    @property
    def is_accepted(self) -> bool:
        """Return whether this version still accepts the old word."""
        return minor_of(version()) <= minor_of(self.since)


BEFORE_RELEASES: Final = "0.0"
"""`since` of words that no release accepts."""
RENAMES: Final = (
    Rename(Kind.KEY, "models.*.pictures", "images", BEFORE_RELEASES),
    Rename(Kind.KEY, "personal_images.most_images", "max_images", BEFORE_RELEASES),
    Rename(Kind.KEY, "personal_images.most_pictures", "max_photos", BEFORE_RELEASES),
    Rename(Kind.KEY, "personal_images.most_sets", "max_open_sets", BEFORE_RELEASES),
)
"""Every renamed word of a stack. An entry stays for as long as `upgrade` can rewrite it."""


@cache
def version() -> str:
    """Return the version of this project."""
    return metadata.version("gke-inference-components")


def minor_of(text: str) -> tuple[int, int]:
    """Return the major and minor version of `0.2` or `0.2.1`."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


@dataclass(frozen=True)
class Found:
    """An old word in a text."""

    rename: Rename
    where: str
    """Location of the key, as error messages have it."""
    start: int
    end: int
    """Characters of the text that have the word, with its quotes."""
    is_doubled: bool = False
    """Whether the mapping has the new key as well."""

    @property
    def problem(self) -> InputError:
        """The refusal of the word."""
        if self.rename.kind is Kind.VALUE:
            return InputError(self.where, f"must be {self.rename.new}, its new name", self.old)
        also = ", which is also set" if self.is_doubled else ""
        return InputError(self.where, f"is renamed to {self.rename.new!r}{also}")

    @property
    def old(self) -> str:
        """The old word."""
        return self.rename.old

    @property
    def warning(self) -> str:
        """The line for a user whose word is still accepted."""
        what = f"{self.old!r} " if self.rename.kind is Kind.VALUE else ""
        major, minor = minor_of(self.rename.since)
        return (
            f"{self.where}: {what}is renamed to {self.rename.new!r}; version {major}.{minor + 1} "
            "no longer accepts the old word (gke-inference upgrade rewrites it)"
        )


def old_words(text: str, renames: tuple[Rename, ...], within: tuple[str, ...] = ()) -> list[Found]:
    """Return the old words in a stack, in the order of the text.

    Args:
        text: YAML or JSON. A text that is neither has none: its reader describes the problem.
        renames: Words to look for.
        within: Keys that lead to the stack's root.
    """
    likely = [each for each in renames if each.old in text]
    if not likely:
        return []
    try:
        root = yaml.compose(text, UserLoader)
    except yaml.YAMLError:
        return []
    found: dict[int, Found] = {}  # what an anchor shares is found several times
    for rename in likely:
        for place, at in _places(root, (*within, *rename.path.split(".")[:-1]), ()):
            for each in _in(place, rename, at[len(within) :]):
                found.setdefault(each.start, each)
    return sorted(found.values(), key=lambda each: each.start)


def with_new_words(
    text: str, renames: tuple[Rename, ...], within: tuple[str, ...] = ()
) -> tuple[str, list[Found]]:
    """Return a text with the new words in place of the old, and what was replaced.

    Everything else stays as it is, comments and quotes included. A key stays if its new name is
    set beside it.
    """
    replaced: list[Found] = []
    for _ in range(len(renames) + 1):  # a key inside a renamed one has the new path
        found = [each for each in old_words(text, renames, within) if not each.is_doubled]
        if not found:
            break
        for each in reversed(found):
            text = text[: each.start] + _replaced(text, each) + text[each.end :]
        replaced += found
    return text, replaced


def _replaced(text: str, found: Found) -> str:
    word = text[found.start : found.end]  # may begin with an anchor
    before, old, after = word.rpartition(found.old)
    return before + found.rename.new + after if old else json.dumps(found.rename.new)


def _places(
    node: yaml.Node | None, path: tuple[str, ...], at: Location
) -> Iterator[tuple[yaml.MappingNode, Location]]:
    """Yield the mappings that a path leads to, with their locations."""
    if not path:
        if isinstance(node, yaml.MappingNode):
            yield node, at
        return
    head, rest = path[0], path[1:]
    if isinstance(node, yaml.SequenceNode) and head == "*":
        for index, entry in enumerate(node.value):
            yield from _places(entry, rest, (*at, index))
    elif isinstance(node, yaml.MappingNode):
        for key, value in _members(node):
            if head in ("*", key.value):
                yield from _places(value, rest, (*at, str(key.value)))


def _members(node: yaml.MappingNode) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """Yield the keys and values of a mapping, also those that `<<` adds from another."""
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for each in merged:
                if isinstance(each, yaml.MappingNode):
                    yield from _members(each)
        elif isinstance(key, yaml.ScalarNode):
            yield key, value


def _in(node: yaml.MappingNode, rename: Rename, at: Location) -> Iterator[Found]:
    """Yield the old word of one mapping."""
    members = list(_members(node))
    names = {key.value for key, _ in members}
    last = rename.path.rpartition(".")[2]
    for key, value in members:
        if key.value != last:
            continue
        where = join(*at, last)
        if rename.kind is Kind.KEY:
            doubled = rename.new in names
            yield Found(rename, where, key.start_mark.index, key.end_mark.index, doubled)
        elif isinstance(value, yaml.ScalarNode) and value.value == rename.value:
            yield Found(rename, where, value.start_mark.index, value.end_mark.index)
