"""The reference of `bench`; `python -m bench.reference` writes docs/reference/bench.md."""

from typing import Any

import typer

from bench.command import bench
from scripts.docs.cli import first_line, section
from scripts.docs.notice import NOTICE
from twin.host.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "bench.md"
_OPENING = """\
# Commands of `bench`

Any target of the Makefile installs the program in `.venv/bin`; `make bench` runs `bench all`. The
[benchmarks](../benchmarks.md) page has the results.

"""


def bench_page() -> str:
    """Return the page: a section for each subject, with its options."""
    program: Any = typer.main.get_command(bench)
    lines = [first_line(str(program.help or "")), ""]
    for name, command in program.commands.items():
        lines += section(f"bench {name}", command)
    return NOTICE + _OPENING + "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(bench_page())
