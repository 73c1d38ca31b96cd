"""Tools that tests start."""

from pathlib import Path

import pytest

from twin.toolchain import ToolError, tool


def needed(*programs: str) -> Path:
    """Return the path of the last program; skip the test if one of them cannot be obtained."""
    try:
        return [tool(program) for program in programs][-1]
    except ToolError as error:
        pytest.skip(str(error))
