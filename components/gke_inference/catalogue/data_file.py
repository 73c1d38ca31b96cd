"""Reads the tables of facts that the packages of the blueprint bring along."""

from pathlib import Path
from typing import Any

import yaml

# libyaml's loader reads the same in a tenth of the time; not every build of PyYAML has it
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_table(path: Path) -> Any:
    """Return the content of a YAML file."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - safe loaders only
