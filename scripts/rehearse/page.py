"""The page of a rehearsal: figures and charts in one HTML file."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from numpy.typing import NDArray

from scripts.rehearse.result import Result
from scripts.rehearse.show import headlines
from scripts.terminal.console import CommandError
from simulator.rehearsal.run import CHANGE
from twin.drawings.curves_svg import Curve, Panel
from twin.drawings.svg import embedded
from twin.drawings.timeline import clock

NAME = "rehearsal.html"
_TEMPLATES = Path(__file__).parent / "templates"
_REPORT = Path(__file__).parents[1] / "report" / "templates"
_MARKS = {"scenario.step", "front.ejected", CHANGE, "rollout.done", "upgrade.paused"}
_MOST_MARKS = 12


def check_page(folder: Path) -> None:
    """Check that a page can be written to a folder, before the rehearsal, which takes minutes.

    Raises:
        CommandError: It is not a folder, or its place is not.
    """
    place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise CommandError(f"--page: must be a folder to write to, got {folder}")


def write_page(found: Result, stack: str, folder: Path) -> Path:
    """Write the page of a rehearsal to a folder, and return its path.

    Raises:
        CommandError: The folder cannot be written.
    """
    return write_html(folder, NAME, html(found, stack))


def write_html(folder: Path, name: str, text: str) -> Path:
    """Write a page to a folder, and return its path.

    Raises:
        CommandError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / name
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--page: must be a folder to write to, got {folder}: {error}") from None
    return file


def html(found: Result, stack: str) -> str:
    """Return the page as HTML."""
    template = templates().get_template("rehearsal.html")
    return template.render(
        stack=stack, found=found, lines=list(headlines(found)), picture=_picture(found), clock=clock
    )


def templates() -> Environment:
    """Return the templates of the pages."""
    return Environment(
        loader=FileSystemLoader([_TEMPLATES, _REPORT]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def panels(found: Result) -> Iterator[Panel]:
    """Yield the curves of a rehearsal, with hours as their time."""
    rehearsal = found.rehearsal
    for name, series in rehearsal.tally.series.items():

        def rates(counts: NDArray[np.int64], label: str, *, dashed: bool = False) -> Curve:
            points = tuple(
                (at * rehearsal.tally.interval / 3600, float(count) / rehearsal.tally.interval)
                for at, count in enumerate(counts.tolist())
            )
            return Curve(label, points, dashed)

        yield Panel(
            f"{name}\nrequests/s",
            (
                rates(series.sent, "sent"),
                rates(series.late, "late"),
                rates(series.failed, "not answered", dashed=True),
            ),
        )
    for pool in dict.fromkeys(one.workload.pool for one in rehearsal.workloads):
        curves: list[Curve] = []
        mine = [one for one in rehearsal.workloads if one.workload.pool == pool and one.recorded]
        for name in dict.fromkeys(one.workload.name for one in mine):
            everywhere = [one.recorded for one in mine if one.workload.name == name]
            times = [each.seconds / 3600 for each in everywhere[0]]
            ready = [sum(each.ready for each in at) for at in zip(*everywhere, strict=True)]
            wanted = [sum(each.wanted for each in at) for at in zip(*everywhere, strict=True)]
            curves += [
                Curve(f"{name} ready", tuple(zip(times, map(float, ready), strict=True))),
                Curve(f"{name} wanted", tuple(zip(times, map(float, wanted), strict=True)), True),
            ]
        yield Panel(f"{pool}\nreplicas", tuple(curves))
    keys = sorted({key for _, counts in rehearsal.chips for key in counts})
    yield Panel(
        "chips",
        tuple(
            Curve(
                f"{accelerator} {provisioning}",
                tuple(
                    (at / 3600, float(counts[accelerator, provisioning]))
                    for at, counts in rehearsal.chips
                ),
            )
            for accelerator, provisioning in keys
        ),
    )


def _picture(found: Result) -> str:
    """Return the curves as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("MPLCONFIGDIR", folder)
        from twin.drawings.curves_svg import save  # noqa: PLC0415 - loads the plotting library

        file = Path(folder) / "curves.svg"
        log = found.rehearsal.log.events
        marks = [(each.seconds / 3600, each.message) for each in log if each.kind in _MARKS]
        save(list(panels(found)), marks[:_MOST_MARKS], file, "", x_label="hours")
        return embedded(file)
