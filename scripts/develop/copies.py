"""Lines that two files of product code have alike: `python -m scripts.develop.copies`.

A copy is a run of at least six equal lines. Blank lines, comments, imports, declarations of fields
and parameters, and lines without a word, such as a closing bracket, do not count, and neither does
white space.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
LINES: Final = 6
"""Equal lines from which two places are a copy."""
_FOLDERS: Final = (
    "bench", "components", "infra", "planner", "policies", "scripts", "simulator", "twin",
    "workloads",
)  # fmt: skip
_TESTS: Final = re.compile(r"(^|/)(tests|vendor)/|_test\.go$")
_IMPORTS: Final = re.compile(
    r"^(from [\w.]+ import \([^)]*\)|import \([^)]*\)|(from|import) .*)$", re.MULTILINE
)
_WORD: Final = re.compile(r"\w")
_LEFT_OUT: Final = re.compile(r"^(#|//|\w+: [^={]*(,|$)|\w+: [^={]* = [^=]*,$)")


class Copy(NamedTuple):
    """Lines that two files have alike."""

    first: str
    second: str
    at: tuple[int, int]
    """Line at which the first run begins in each file."""
    lines: int
    """Number of equal lines in the longest run."""


def copies(sources: dict[str, str]) -> list[Copy]:
    """Return the pairs of files that share a run, the longest run first.

    Args:
        sources: Text of each file by its path.
    """
    code = {path: list(_code(text)) for path, text in sources.items()}
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for path, lines in code.items():
        for start in range(len(lines) - LINES + 1):
            places[tuple(text for _, text in lines[start : start + LINES])].append((path, start))
    shared: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    for found in places.values():
        for at, (first, start) in enumerate(found):
            for second, other in found[at + 1 :]:
                if first != second:
                    shared[first, second].add((start, other))
    result: list[Copy] = []
    for (first, second), starts in shared.items():
        longest, begin = 0, (0, 0)
        for start, other in sorted(starts):
            length = 1
            while (start + length, other + length) in starts:
                length += 1
            if length > longest:
                longest, begin = length, (start, other)
        at = (code[first][begin[0]][0], code[second][begin[1]][0])
        result.append(Copy(first, second, at, longest + LINES - 1))
    return sorted(result, key=lambda each: (-each.lines, each.first, each.second))


def _code(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that count, with their numbers."""
    without = _IMPORTS.sub(lambda found: "\n" * found.group().count("\n"), text)
    for number, line in enumerate(without.splitlines(), 1):
        found = " ".join(line.split())
        if _WORD.search(found) and not _LEFT_OUT.match(found):
            yield number, found


def product_code() -> dict[str, str]:
    """Return the Python and Go code of the repository without its tests, by path."""
    return {
        str(file.relative_to(ROOT)): file.read_text("utf-8")
        for folder in _FOLDERS
        for kind in ("*.py", "*.go")
        for file in sorted((ROOT / folder).rglob(kind))
        if not _TESTS.search(str(file.relative_to(ROOT))) and file.resolve() == file
    }


def main() -> None:
    """Print every copy, the longest first."""
    for each in copies(product_code()):
        first, second = (f"{path}:{at}" for path, at in zip(each[:2], each.at, strict=True))
        sys.stdout.write(f"{each.lines} lines: {first} {second}\n")


if __name__ == "__main__":
    main()
