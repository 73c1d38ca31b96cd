"""Scenarios by name, as options give them."""

from pathlib import Path

from scripts.terminal.options import check_one
from twin.world import scenario as scenarios


def scenario_file(name: str) -> Path:
    """Return the file of a scenario, by the name of a built-in scenario or by path.

    Raises:
        CommandError: There is no such scenario.
    """
    file = scenarios.find(name)
    if not file.exists() and "/" not in name and not name.endswith((".yaml", ".yml")):
        check_one("--scenario", name, scenarios.names())
    return file
