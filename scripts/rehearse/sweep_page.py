"""The page of a sweep: cost against late answers, and all settings."""

import os
import tempfile
from pathlib import Path

from scripts.rehearse.page import templates, write_html
from scripts.rehearse.search import Found
from simulator.rehearsal.accounts import PERCENTILE
from twin.drawings.scatter_svg import Cloud, Points, save
from twin.drawings.svg import embedded

NAME = "sweep.html"


def write_page(found: Found, stack: str, lines: list[str], folder: Path) -> Path:
    """Write the page of a sweep to a folder, and return its path.

    Raises:
        CommandError: The folder cannot be written.
    """
    rows = list(zip(found.groups, found.tried, found.best, strict=True))
    text = templates().get_template("sweep.html").render(
        stack=stack, found=found, lines=lines, rows=rows, picture=_picture(found)
    )  # fmt: skip
    return write_html(folder, NAME, text)


def clouds(found: Found) -> list[Cloud]:
    """Return the points of each group, by the length that they ran."""
    made: list[Cloud] = []
    for group, tried, best in zip(found.groups, found.tried, found.best, strict=True):
        lengths = sorted({each.hours for each in tried})
        points = [
            Points(
                f"{hours:g} h",
                tuple(
                    (each.usd / each.hours, 100 * each.late_share)
                    for each in tried
                    if each.hours == hours
                ),
            )
            for hours in lengths
        ]
        chosen = next(each for each in tried if each.option == best)
        mark = (chosen.usd / chosen.hours, 100 * chosen.late_share)
        points.append(Points("best", (mark,), is_best=True))
        made.append(Cloud(group.name, tuple(points), 100 * (1 - PERCENTILE)))
    return made


def _picture(found: Found) -> str:
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("MPLCONFIGDIR", folder)
        file = Path(folder) / "points.svg"
        save(clouds(found), file, "US dollars an hour", "late answers, percent")
        return embedded(file)
