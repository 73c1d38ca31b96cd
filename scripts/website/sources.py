"""Pages that show files and folders of the repository, so that links of the site stay in it."""

from pathlib import Path

_LANGUAGES = {
    ".csv": "text", ".go": "go", ".json": "json", ".jsonl": "json", ".md": "markdown",
    ".py": "python", ".sh": "sh", ".toml": "toml", ".ts": "typescript", ".yaml": "yaml",
    ".yml": "yaml",
}  # fmt: skip
_MOST_BYTES = 60_000
"""A longer file is shown up to here."""
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
"""Front matter of a page that the search leaves out."""
_HIDDEN = (".", "__pycache__")


def page_of(path: Path) -> Path:
    """Return where the site has the page of a file or folder of the repository."""
    shown = [part.lstrip(".") for part in path.parts]  # Zensical skips hidden files
    return Path("source", *shown[:-1], f"{shown[-1]}.md")


def source_page(root: Path, path: Path) -> str:
    """Return the page of a file or folder.

    Args:
        root: the repository.
        path: a path below it.
    """
    return _folder(root, path) if (root / path).is_dir() else _file(root, path)


def children(root: Path, path: Path) -> list[Path]:
    """Return the files of a folder, by name, that are part of the repository."""
    return [each.relative_to(root) for each in _entries(root / path) if each.is_file()]


def _entries(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if not each.name.startswith(_HIDDEN))


def _file(root: Path, path: Path) -> str:
    text = (root / path).read_bytes()
    shown = text[:_MOST_BYTES].decode(errors="replace").rstrip()
    longest = max((len(run) for run in shown.split() if not run.strip("`")), default=0)
    fence = "`" * max(4, longest + 1)
    rest = (
        f"\nThe first {_MOST_BYTES:,} of {len(text):,} bytes.\n" if len(text) > _MOST_BYTES else ""
    )
    language = _LANGUAGES.get(path.suffix, "text")
    return f"{UNSEARCHED}# {path.as_posix()}\n\n{fence}{language}\n{shown}\n{fence}\n{rest}"


def _folder(root: Path, path: Path) -> str:
    entries = _entries(root / path)
    readme = root / path / "README.md"
    lines = [readme.read_text().rstrip() if readme.is_file() else f"# {path.as_posix()}", ""]
    lines += ["", f"## Files in {path.as_posix()}", ""] if readme.is_file() else [""]
    for each in entries:
        name = each.relative_to(root / path).as_posix()
        if each.is_dir():
            lines.append(f"- `{name}/`")
        elif each.name != "README.md":
            lines.append(f"- [{name}]({name})")
    return ("" if readme.is_file() else UNSEARCHED) + "\n".join(lines) + "\n"
