"""The files in the folders of engines, data/engines/NAME."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.data_file import read_table

FOLDER = Path(__file__).parent / "data" / "engines"
"""Has a folder for each engine."""


@cache
def tables(file: str) -> Mapping[str, Any]:
    """Return the content of a YAML file of the engines' folders, by the name of the engine.

    Includes engines that stacks cannot use but manifests of others can. Not all have each file.
    """
    return {path.parent.name: read_table(path) for path in sorted(FOLDER.glob(f"*/{file}"))}
