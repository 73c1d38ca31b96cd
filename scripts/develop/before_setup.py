"""Checks what the set-up needs, before anything is installed; runs with any Python 3.

`make` calls it with each Python that it finds. It imports the standard library alone.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_RANGE = re.compile(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"$', re.MULTILINE)
_MODULES = ("venv", "ensurepip")
"""Modules that Debian and Ubuntu ship in a package of their own."""


def problem(version: tuple[int, int], missing: list[str], program: str) -> str:
    """Return why a Python cannot be used, and what to do; empty if it can.

    Args:
        version: Its major and minor version.
        missing: The modules of `_MODULES` that it does not have.
        program: Its command or path.
    """
    oldest, newest = supported()
    found = ".".join(map(str, version))
    if not (3, oldest) <= version <= (3, newest):
        return (
            f"needs Python 3.{oldest} to 3.{newest}, found {found} ({program}). Install one "
            f"(Debian: apt install python3.{newest}-venv; or: uv python install 3.{newest}), "
            f"then run: make PYTHON=python3.{newest} up"
        )
    if missing:
        return (
            f"Python {found} ({program}) must have the modules {' and '.join(_MODULES)}, "
            f"missing {', '.join(missing)}. Install them (Debian: apt install python{found}-venv)"
        )
    return ""


def supported() -> tuple[int, int]:
    """Return the oldest and the newest minor version of Python 3 in pyproject.toml."""
    found = _RANGE.search(_PROJECT.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError("pyproject.toml: requires-python must be a range of Python 3, got none")
    return int(found[1]), int(found[2]) - 1


def main() -> int:
    """Print the problem of this Python, if it has one; return the exit code."""
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    found = problem((sys.version_info[0], sys.version_info[1]), missing, sys.executable)
    if found:
        sys.stderr.write(f"error: {found}\n")
        return 2
    if "--quiet" not in sys.argv:
        sys.stdout.write(
            f"Python {sys.version_info[0]}.{sys.version_info[1]} ({sys.executable}) can be used. "
            "Nothing is set up yet: `make tools` installs the Python packages and the tools; then "
            "`make doctor` checks the rest.\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
