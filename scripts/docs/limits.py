"""The page of limits: what each guide says was tested, and where."""

import re
from pathlib import Path

from scripts.website.contents import read_contents, title_of
from scripts.website.links import with_links
from twin.host.paths import REPOSITORY

HEADING = "Test coverage"
_SECTION = re.compile(rf"^## {HEADING}\n+(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_OPENING = """\
# Limits: what was tested where

In short: everything runs on the twin, nothing was deployed to Google Cloud, and no model of this
project has run on a TPU. Each section below is that of a guide, in the order of
[all pages](README.md). The rules that the twin assumes are on [their own page](../twin/rules.md),
the accuracy of predictions on those of the [planner](reference/planner-accuracy.md) and the
[engine model](engine-model.md#accuracy).
"""


def limits_page(root: Path = REPOSITORY) -> str:
    """Return the page.

    Args:
        root: repository.
    """
    readme = _SECTION.search((root / "README.md").read_text())
    parts = [_OPENING]
    if readme is not None:
        parts.append("## The platform\n\n" + with_links(readme.group(1).strip(), _from_the_top))
    for section in read_contents(root / "docs" / "README.md"):
        for group in section.groups:
            for page in group.pages:
                if page.suffix != ".md" or page.parent != Path() or page.name == "limits.md":
                    continue
                text = (root / "docs" / page).read_text()
                for found in _SECTION.findall(text):
                    title = f"## [{title_of(text)}]({page}#{HEADING.lower().replace(' ', '-')})"
                    parts.append(f"{title}\n\n{_of(page, found)}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _of(page: Path, section: str) -> str:
    """Return a section of a page, whose links to other sections lead to that page."""

    def target_of(target: str) -> str:
        return f"{page}{target}" if target.startswith("#") else target

    return with_links(section.strip(), target_of)


def _from_the_top(target: str) -> str:
    """Return a link of README.md as docs/ has it."""
    return target.removeprefix("docs/") if target.startswith("docs/") else f"../{target}"
