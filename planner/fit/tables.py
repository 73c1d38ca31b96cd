"""Reads the planner's tables of facts."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parents[1] / "data"
# libyaml's loader reads the same in a tenth of the time; not every build of PyYAML has it
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def table(name: str) -> dict[str, Any]:
    """Return one table, such as `pictures` for data/pictures.yaml."""
    return yaml.load((DATA / f"{name}.yaml").read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - safe loaders only
