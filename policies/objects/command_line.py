"""Parses a container's command line into flags, in all common notations.

`--x=y`, `--x y`, `x=y` (MaxText), `--x_y`, inside `sh -c "..."`, and with `$(VAR)`, `$VAR` or
`${VAR:-default}` for the container's own variables.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

_SHELLS = frozenset(["ash", "bash", "dash", "sh"])
_VARIABLE = re.compile(
    r"\$\$|\$\((?P<a>\w+)\)|\$\{(?P<b>\w+)(?::?-(?P<d>[^}]*))?\}|\$(?P<c>[A-Za-z_]\w*)"
)
_BREAKS = frozenset([";", "&&", "||", "|", "&"])


@dataclass(frozen=True)
class CommandLine:
    """The words of a container's command and arguments."""

    words: tuple[str, ...]
    unresolved: frozenset[str] = frozenset()
    """Variables in the words whose value is unknown."""

    def has(self, *names: str) -> bool:
        """Return whether any of these flags is present."""
        return any(_key(word) in names for word in self.words)

    def flag(self, *names: str) -> str | None:
        """Return the value of a flag, the last one if repeated, or None if absent.

        Args:
            names: spellings with dashes, such as `--tensor-parallel-size` and `-tp`.
        """
        found: str | None = None
        for index, word in enumerate(self.words):
            if _key(word) not in names:
                continue
            if "=" in word:
                found = word.partition("=")[2]
            elif index + 1 < len(self.words) and not self.words[index + 1].startswith("--"):
                found = self.words[index + 1]
            else:
                found = ""
        return found

    def values(self, name: str) -> list[str]:
        """Return the values of a flag that takes several, up to the next flag."""
        found: list[str] = []
        taking = False
        for word in self.words:
            if _key(word) == name:
                taking = True
                found += [word.partition("=")[2]] if "=" in word else []
            elif word.startswith("-"):
                taking = False
            elif taking:
                found.append(word)
        return found

    @property
    def text(self) -> str:
        """All words, to search for a program name."""
        return " ".join(self.words)


def command_line(words: list[str], environment: Mapping[str, str | None]) -> CommandLine:
    """Return the command line of a container.

    Args:
        words: its command and arguments.
        environment: its variables; None for one whose value is not in the objects.
    """
    missing: set[str] = set()
    flat = tuple([_resolve(word, environment, missing) for word in _flatten(words)])
    return CommandLine(flat, frozenset(missing))


def _flatten(words: list[str]) -> list[str]:
    """Return the words, with a shell script replaced by its words."""
    for index, word in enumerate(words[:-1]):
        if word.rpartition("/")[2] not in _SHELLS:
            continue
        for behind in range(index + 1, len(words)):
            option = words[behind]
            if not option.startswith("-"):
                break
            if option.endswith("c") and not option.startswith("--") and behind + 1 < len(words):
                return [*words[:index], *_script(words[behind + 1]), *words[behind + 2 :]]
    return words


def _script(text: str) -> list[str]:
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        words = list(lexer)
    except ValueError:  # an open quote in a here-document: fall back to plain words
        words = text.split()
    return [word for word in words if word not in _BREAKS]


def _resolve(word: str, environment: Mapping[str, str | None], missing: set[str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name = match["a"] or match["b"] or match["c"]
        known = environment.get(name)
        if known is not None:
            return known
        if match["d"] is not None:
            return match["d"]
        missing.add(name)
        return match[0]

    return _VARIABLE.sub(value, word)


def _key(word: str) -> str:
    """Return the name of a flag with its dashes, without its value."""
    name = word.partition("=")[0]
    return name.replace("_", "-") if name.startswith("-") else name
