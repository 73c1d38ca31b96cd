"""Assembles what Zensical builds: pages, pictures, and the sources that pages link to."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from scripts.terminal.console import CommandError
from scripts.website.contents import Group, Section, read_contents, title_of
from scripts.website.links import with_links
from scripts.website.sources import UNSEARCHED, children, page_of, source_page

CONTENTS = Path("docs", "README.md")
_DOCS = Path("docs")
_HERE = Path(__file__).parent
_PICTURES = (".png", ".svg")
_FOR_MAINTAINERS = "Maintainers"
"""Section of notes that are not for users; its page outside docs/, Contributing, is searched."""
_EXTRA = "extra:\n"
_VERSIONED = "  version: {provider: mike}\n"
_PLACES = {
    Path("README.md"): Path("index.md"),
    CONTENTS: Path("contents.md"),
    Path("CONTRIBUTING.md"): Path("contributing.md"),
    Path("SCOPE.md"): Path("scope.md"),
}
"""Pages that the site has elsewhere than in their folder below docs/."""


def place_of(root: Path, path: Path) -> Path:
    """Return where the site has a file or folder of the repository.

    Args:
        root: the repository.
        path: a path below it.
    """
    if path in _PLACES:
        return _PLACES[path]
    is_doc = path.is_relative_to(_DOCS)
    if path.suffix in _PICTURES:
        return path.relative_to(_DOCS) if is_doc else Path("source", path)
    if (root / path).is_dir() and path.parent == _DOCS / "examples":
        return Path("examples", f"{path.name}.md")
    if path.suffix == ".md" and not path.is_relative_to(_DOCS / "examples"):
        return path.relative_to(_DOCS) if is_doc else path
    return page_of(path)


def assemble(root: Path, target: Path, *, has_versions: bool = False) -> int:
    """Write the configuration and all pages of the site.

    Args:
        root: the repository.
        target: folder to write; it is emptied first.
        has_versions: whether the site has a selector of versions.

    Returns:
        Number of pages.

    Raises:
        CommandError: a link leads nowhere.
    """
    shutil.rmtree(target, ignore_errors=True)
    pages = target / "docs"
    pages.mkdir(parents=True)
    shutil.copy(_HERE / "site.css", pages / "site.css")
    sections = read_contents(root / CONTENTS)
    unsearched = _unsearched(root, sections)
    queue = [*_PLACES, *sorted(_guides(root))]
    done = set(queue)

    def wanted(path: Path) -> None:
        if path not in done:
            done.add(path)
            queue.append(path)

    while queue:
        path = queue.pop()
        place = pages / place_of(root, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in _PICTURES:
            shutil.copy(root / path, place)
        else:
            front = UNSEARCHED if path in unsearched else ""
            place.write_text(front + _page(root, path, wanted))
    settings = (_HERE / "mkdocs.yml").read_text()
    if has_versions:
        settings = settings.replace(_EXTRA, _EXTRA + _VERSIONED)
    (target / "mkdocs.yml").write_text(settings + "nav:\n" + _navigation(root, sections))
    return sum(1 for _ in pages.rglob("*.md"))


def unlisted(root: Path) -> list[str]:
    """Return the pages of docs/ that the contents do not list; children of an index need not be."""
    listed = {
        root / _DOCS / page
        for section in read_contents(root / CONTENTS)
        for group in section.groups
        for page in group.pages
    }
    listed = {Path(os.path.normpath(each)) for each in listed}
    indexes = {each.parent for each in listed if each.name == "README.md"}
    return [
        path.as_posix()
        for path in sorted(_guides(root))
        if root / path not in listed and (root / path).parent not in indexes and path != CONTENTS
    ]


def _guides(root: Path) -> list[Path]:
    examples = root / _DOCS / "examples"
    found = [each.relative_to(root) for each in (root / _DOCS).rglob("*.md")]
    folders = [each.relative_to(root) for each in examples.iterdir() if each.is_dir()]
    return [each for each in found if not (root / each).is_relative_to(examples)] + folders


def _unsearched(root: Path, sections: list[Section]) -> set[Path]:
    """Return the pages that the search leaves out, as readers with a task do not look for them.

    They are the contents, and maintainers' notes with what is below their indexes.
    """
    found = {CONTENTS}
    for section in sections:
        for page in (each for group in section.groups for each in group.pages):
            path = Path(os.path.normpath(_DOCS / page))
            if section.title == _FOR_MAINTAINERS and path.is_relative_to(_DOCS):
                is_index = path.name == "README.md"
                below = (root / path.parent).glob("*.md") if is_index else [root / path]
                found |= {each.relative_to(root) for each in below}
    return found


def _page(root: Path, path: Path, wanted: Callable[[Path], None]) -> str:
    is_folder = (root / path).is_dir()
    is_page = path.suffix == ".md" and place_of(root, path).parts[0] != "source"
    text = (root / path).read_text() if is_page else source_page(root, path)
    if not is_page and not is_folder:
        return text
    if is_folder and path.is_relative_to(_DOCS / "examples"):
        for each in children(root, path):
            wanted(each)

    def target_of(target: str) -> str:
        name, mark, anchor = target.partition("#")
        if not name:
            return target
        folder = path if is_folder else path.parent
        absolute = Path(os.path.normpath(root / folder / name))
        if not absolute.exists() or not absolute.is_relative_to(root):
            raise CommandError(
                f"{path}: a link must lead to a file of the repository, got {target}"
            )
        linked = absolute.relative_to(root)
        wanted(linked)
        place = os.path.relpath(place_of(root, linked), place_of(root, path).parent)
        return f"{place}{mark}{anchor}" if place_of(root, linked).parts[0] != "source" else place

    return with_links(text, target_of)


def _navigation(root: Path, sections: list[Section]) -> str:
    lines = ["  - Home: index.md"]
    for section in sections:
        lines.append(f"  - {_quoted(section.title)}:")
        if section is sections[0]:
            lines.append(f"      - All pages: {_PLACES[CONTENTS]}")
        for group in section.groups:
            lines += _group(root, group)
    return "\n".join(lines) + "\n"


def _group(root: Path, group: Group) -> list[str]:
    if not group.pages:
        return []
    indent = "      " if not group.title else "          "
    lines = [f"      - {_quoted(group.title)}:"] if group.title else []
    for page in group.pages:
        path = Path(os.path.normpath(_DOCS / page))
        if path.name == "README.md" and path != CONTENTS and path.is_relative_to(_DOCS):
            others = sorted(
                each for each in (root / path.parent).glob("*.md") if each.name != path.name
            )
            lines.append(f"{indent}- {_quoted(_title(root, path))}:")
            lines.append(f"{indent}    - {place_of(root, path)}")
            lines += [f"{indent}    - {_entry(root, each.relative_to(root))}" for each in others]
        else:
            lines.append(f"{indent}- {_entry(root, path)}")
    return lines


def _entry(root: Path, path: Path) -> str:
    return f"{_quoted(_title(root, path))}: {place_of(root, path)}"


def _title(root: Path, path: Path) -> str:
    if (root / path).is_dir():
        return path.name
    return title_of((root / path).read_text()) or path.name


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
