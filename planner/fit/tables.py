"""Reads the planner's tables of facts."""

from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.data_file import read_table

DATA = Path(__file__).parents[1] / "data"


@cache
def table(name: str) -> dict[str, Any]:
    """Return one table, such as `images` for data/images.yaml."""
    return read_table(DATA / f"{name}.yaml")
