"""The lines of the endpoint picker: their images, kinds and metrics, from data/pickers.yaml."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from gke_inference.catalogue.data_file import read_table
from gke_inference.settings import OneOf

_FILE = Path(__file__).parent / "data" / "pickers.yaml"
GIE: Final = "gie"
"""The picker of gateway-api-inference-extension, of which there are no new releases."""
LLM_D_ROUTER: Final = "llm-d-router"
"""Its successor, the picker of llm-d-router."""


@dataclass(frozen=True)
class PickerLine:
    """One line of the endpoint picker."""

    release: str
    """Project and release."""
    image: str
    """Name of its image in the lock."""
    roles_image: str
    """Name of the image for pools of prefill and decode replicas."""
    apis: Mapping[str, str]
    """Names in the lock of its kinds: `config`, `objective` and `rewrite`."""
    metrics: Mapping[str, str]
    """Its metrics by what they say; histograms without suffix."""
    labels: Mapping[str, str]
    """Labels of its metrics by what they say."""


@cache
def picker_lines() -> dict[str, PickerLine]:
    """Return the lines by the name that a stack uses."""
    return {name: PickerLine(**entry) for name, entry in read_table(_FILE)["lines"].items()}


def picker_line(name: str) -> PickerLine:
    """Return one line.

    Raises:
        ValueError: There is no such line.
    """
    found = picker_lines().get(name)
    if found is None:
        raise ValueError(f"no line of the picker has the name {name!r}")
    return found


PickerLineName = Annotated[str, OneOf(tuple(picker_lines()))]
"""Name of a line in a stack."""
