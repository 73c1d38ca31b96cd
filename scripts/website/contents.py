"""The contents of the site: the sections, groups and pages of docs/README.md."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from scripts.terminal.console import CommandError
from scripts.website.links import links

_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_MARKS = re.compile(r"[`*]|\[([^\]]*)\]\([^)]*\)")


@dataclass
class Group:
    """Pages under one heading of the contents."""

    title: str
    """Empty for the pages before the first heading of a section."""
    pages: list[Path] = field(default_factory=list[Path])
    """Paths relative to the folder of the contents; a folder is an example."""


@dataclass
class Section:
    """A section of the site: a tab in its header."""

    title: str
    groups: list[Group] = field(default_factory=list[Group])


def read_contents(file: Path) -> list[Section]:
    """Read the contents: `##` is a section, `###` a group, each link a page.

    Args:
        file: the page with the contents.

    Raises:
        CommandError: a page is listed twice.
    """
    sections: list[Section] = []
    seen: set[str] = set()
    for line in file.read_text().splitlines():
        if line.startswith("## "):
            sections.append(Section(line[3:].strip(), [Group("")]))
        elif line.startswith("### "):
            sections[-1].groups.append(Group(line[4:].strip()))
        elif sections:
            for target in links(line):
                if target in seen:
                    raise CommandError(f"{file.name}: each page must be listed once, got {target}")
                seen.add(target)
                sections[-1].groups[-1].pages.append(Path(target))
    return sections


def title_of(text: str) -> str | None:
    """Return the first heading of a page without marks; None if it has none."""
    found = _TITLE.search(text)
    return _MARKS.sub(lambda mark: mark.group(1) or "", found.group(1)).strip() if found else None
