"""Console blocks of a page: commands behind `$`, and under each the lines that it prints.

`…` in a line stands for any text, and a line of nothing but `…` for any lines. Everything else must
be printed, in this order and between nothing but what `…` stands for; runs of spaces count as one,
as tables are as wide as their content.
"""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scripts.terminal.where import ON_TWIN

_ANY = "…"


@dataclass
class Command:
    line: str
    shown: list[str] = field(default_factory=list)


def numbered(folder: Path) -> dict[int, str]:
    """Return the text of the pages of a folder whose names begin with a number."""
    pages = {int(each.name.partition("-")[0]): each for each in folder.glob("[0-9]*-*.md")}
    return {number: pages[number].read_text() for number in sorted(pages)}


def blocks(text: str, language: str) -> list[str]:
    """Return the blocks of code in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[Command]:
    """Return the commands of a text's console blocks, in order."""
    found: list[Command] = []
    for block in blocks(text, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Command(line.removeprefix("$ ")))
            elif found and found[-1].line.endswith("\\") and not found[-1].shown:
                found[-1].line = f"{found[-1].line[:-1]} {line.strip()}"
            else:
                found[-1].shown.append(line)
    return found


def run(command: Command, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command as a reader does in a folder; return what it printed.

    Raises:
        AssertionError: It failed.
    """
    answer = subprocess.run(
        ["bash", "-c", command.line],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
        check=False,
    )
    assert answer.returncode == 0, f"{command.line}\n{answer.stdout}"
    # every page of the twin says once where it works, and does not repeat it in each output
    return "".join(line for line in answer.stdout.splitlines(True) if line != f"{ON_TWIN}\n")


def unlike(shown: list[str], printed: str) -> str:
    """Return the first line of a page that was not printed where it should be; empty if none."""
    lines = [_plain(line) for line in printed.splitlines() if line.strip()]
    wanted = [_plain(line) for line in shown if line.strip()]
    at, may_skip = 0, False
    for line in wanted:
        if line == _ANY:
            may_skip = True
            continue
        pattern = re.compile(".*".join(map(re.escape, line.split(_ANY))))
        rest = range(at, len(lines)) if may_skip else range(at, min(at + 1, len(lines)))
        found = next((n for n in rest if pattern.fullmatch(lines[n])), None)
        if found is None:
            return line
        at, may_skip = found + 1, False
    return "" if may_skip or at == len(lines) else f"(nothing), but there is: {lines[at]}"


def _plain(line: str) -> str:
    return " ".join(line.split())
