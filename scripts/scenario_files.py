"""Scenarios by name, as options say them."""

from pathlib import Path

from scripts.options import check_one
from twin.world import scenario as scenarios


def scenario_file(name: str) -> Path:
    """Return the file of a scenario: one that comes with the twin, or a path.

    Raises:
        CommandError: there is neither.
    """
    file = scenarios.find(name)
    if not file.exists() and "/" not in name and not name.endswith((".yaml", ".yml")):
        check_one("--scenario", name, scenarios.names())
    return file
