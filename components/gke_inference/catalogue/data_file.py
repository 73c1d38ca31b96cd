"""Reads the data files of the repository's packages."""

from pathlib import Path
from typing import Any, Final

import yaml

UNVERIFIED: Final = "unverified"
"""Confidence of a row that was not checked against a source."""
# libyaml's loader is ten times as fast, but not every build of PyYAML has it
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_table(path: Path) -> Any:
    """Return the content of a YAML file."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - safe loaders only
