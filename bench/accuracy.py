"""The accuracy of the planner on published measurements, with their models left out.

`bench accuracy` measures it and checks its bounds. With `--update`, it first fits the constants
again and writes them (planner/data/reached.yaml), and at last docs/reference/planner-accuracy.md.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from statistics import median
from typing import Any

import yaml

from bench.aiconfigurator import estimate, estimator
from planner.fit.tables import DATA, table
from planner.speed.all_to_all import kernels
from planner.speed.constants import engine_of
from planner.speed.constants import forget as forget_constants
from planner.speed.errors import (
    LEFT_OUT,
    TITLES,
    Compared,
    Contest,
    Group,
    chip_contests,
    contests,
    coverage,
    families,
    forget_errors,
    left_out,
    of_noted,
    splits,
    widths,
)
from planner.speed.fitting import Fit
from planner.speed.points import BETWEEN, FIRST, LOOPS, QUANTITIES, points
from twin.host.paths import REPOSITORY

Row = dict[str, Any]
PAGE = REPOSITORY / "docs" / "reference" / "planner-accuracy.md"
TABLE = DATA / "reached.yaml"
_OPENING = """\
<!-- Made by `bench accuracy --update`; change its source, not this page. -->

# Accuracy of the planner

How far the estimates of [the planner](../planner.md) are from published measurements, on {date},
by `bench accuracy --update`. The points are those of
[benchmarks.csv](../../planner/data/benchmarks.csv) and
[closed_loops.csv](../../planner/data/closed_loops.csv), each with its source; the fitted constants
are in [reached.yaml](../../planner/data/reached.yaml). Errors are absolute unless they have a sign.
*Bias* is the median with its sign, and *width* the median factor from an estimate to the end of its
80 % interval.

"""
_HEAD = ("points", "median error", "nine in ten below", "bias", "in their 80 % interval", "width")


def is_loop(item: Compared) -> bool:
    """Return whether a point is one of closed_loops.csv."""
    return "silicon_sample" in item.point.row["source"]


def accuracy_rows() -> list[Row]:
    """Measure the errors on closed loops whose models were left out, by engine and quantity."""
    loops = left_out("model").where(is_loop)
    rows = [
        _row(engine, quantity, group)
        for engine in ("all", "vllm", "sglang", "tensorrt")
        for quantity in (BETWEEN, FIRST)
        if (group := _of_engine(loops, engine).of(quantity)).compared
    ]
    noted = of_noted()
    for quantity in (BETWEEN, FIRST):
        both = replace(
            noted.of(quantity),
            compared=(*noted.of(quantity).compared,
                      *_of_engine(loops, "vllm").of(quantity).compared),
        )  # fmt: skip
        rows.append(_row("vLLM, also impossible rows", quantity, both))
    rows += [
        {"intervals": quantity, "held_percent": _percent(coverage(quantity))}
        for quantity in QUANTITIES
    ]
    found = chip_contests()
    rows += [
        _contest_row(engine, [one for one in found if engine in ("all", one.engine)])
        for engine in ("all", "vllm")
    ]
    return rows + rival_rows(loops)


def rival_rows(loops: Group) -> list[Row]:
    """Measure aiconfigurator on the same rows; none where it is not installed.

    The planner's own errors beside it are on the rows that both answer.
    """
    if estimator() is None:
        return []
    rows: list[Row] = []
    answered = {
        id(item.point.work): found
        for item in loops.compared
        if item.point.quantity == BETWEEN and (found := estimate(item.point)) is not None
    }
    both = loops.where(lambda item: id(item.point.work) in answered)
    for engine in ("all", "vllm", "sglang", "tensorrt"):
        for place, quantity in ((1, BETWEEN), (0, FIRST)):
            ours = _of_engine(both, engine).of(quantity)
            if not ours.compared:
                continue
            theirs = replace(
                ours,
                compared=tuple(
                    replace(item, estimated=answered[id(item.point.work)][place])
                    for item in ours.compared
                ),
            )
            rows.append({**_row(engine, quantity, theirs), "estimates": "aiconfigurator"})
            rows.append({**_row(engine, quantity, ours), "estimates": "planner, same rows"})
    return rows


def _of_engine(group: Group, engine: str) -> Group:
    return group.where(lambda item: engine in ("all", engine_of(item.point.row["engine"])))


def _row(engine: str, quantity: str, group: Group) -> Row:
    return {
        "engine": engine,
        "quantity": quantity,
        "estimates": "planner",
        "points": len(group.compared),
        "median_percent": _percent(group.median),
        "nine_in_ten_percent": _percent(group.nine_in_ten),
        "bias_percent": _percent(group.bias),
        "in_interval_percent": _percent(group.inside),
    }


def _contest_row(engine: str, found: Sequence[Contest]) -> Row:
    return {
        "contests": engine,
        "of": len(found),
        "right_chip": sum(one.is_first for one in found),
        "wrong_chip_percent": _percent(1 - sum(one.is_first for one in found) / len(found)),
        "output_kept": round(sum(one.kept for one in found) / len(found), 3),
    }


def _percent(value: float) -> float:
    return round(100 * value, 1)


def update() -> None:
    """Fit the constants and the widths of intervals again, and write them."""
    fit = Fit(points())
    found = {"constants": fit.constants(fit.solve()), "intervals": table("reached")["intervals"]}
    _write_table(found)
    points.cache_clear()
    forget_constants()
    forget_errors()
    _write_table({**found, "intervals": widths()})


def _write_table(found: dict[str, Any]) -> None:
    TABLE.write_text(
        "# Made by `bench accuracy --update`: see planner/speed/constants.py and fitting.py.\n"
        + yaml.safe_dump(found, sort_keys=True, width=120)
    )
    table.cache_clear()
    left_out.cache_clear()


@dataclass(frozen=True)
class _Table:
    title: str
    groups: Sequence[tuple[str, Group]]


def write_page(rows: Sequence[Row]) -> None:
    """Write the page, with the figures that `accuracy_rows` measured."""
    PAGE.write_text(_OPENING.replace("{date}", date.today().isoformat()) + "\n".join(_page(rows)))


def _page(rows: Sequence[Row]) -> Iterable[str]:
    yield "## Closed loops, with their models left out"
    yield ""
    yield (
        f"Rows of {LOOPS}: every point is estimated with constants that were fitted again without "
        "any point of its model, on any engine and hardware."
    )
    yield ""
    yield "| engine | quantity | estimates | points | median error | nine in ten below | bias |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        if "median_percent" in row:
            yield (
                f"| {TITLES.get(row['engine'], row['engine'])} | {row['quantity']} | "
                f"{row['estimates']} | {row['points']} | {row['median_percent']:g} % | "
                f"{row['nine_in_ten_percent']:g} % | {row['bias_percent']:+g} % |"
            )
    yield ""
    yield (
        "*Impossible rows* are two series with a `note` in the file, which no fit has: weights "
        "that do not fit the stated chips, and prompts that need up to 100 % of the chip's peak."
    )
    yield ""
    yield "## Right accelerator"
    yield ""
    for row in rows:
        if "contests" in row:
            yield (
                f"- {row['contests']} engines: right in {row['right_chip']} of {row['of']} contests"
                f" (output kept: {row['output_kept']:g})."
                if row["contests"] == "all"
                else f"- {TITLES[row['contests']]}: right in {row['right_chip']} of {row['of']}."
            )
    yield ""
    yield (
        "A contest is two accelerators or more with the same model, engine, precision, split, "
        "lengths and concurrency; the model is left out of the estimates. The right one has the "
        "highest output tokens per second."
    )
    yield ""
    yield from _intervals(rows)
    for made in _tables():
        yield from _group_table(made)
    yield from _rest()


def _intervals(rows: Sequence[Row]) -> Iterable[str]:
    yield "## Intervals on models left out"
    yield ""
    yield (
        "How often an interval holds whose width was measured on the *other* models alone. Plans "
        "use the widths of all models."
    )
    yield ""
    yield "| quantity | in its 80 % interval |"
    yield "|---|---|"
    for row in rows:
        if "intervals" in row:
            yield f"| {row['intervals']} | {row['held_percent']:g} % |"
    yield ""


def _tables() -> Iterable[_Table]:
    for quantity in QUANTITIES:
        yield _Table(
            f"{quantity}, by what is left out together",
            [(name, left_out(name).of(quantity)) for name in LEFT_OUT],
        )
    yield _Table("Each point left out, by family", [(one.name, one) for one in families()])
    yield _Table("By split", [(one.name, one) for one in splits()])


def _group_table(made: _Table) -> Iterable[str]:
    yield f"## {made.title[0].upper()}{made.title[1:]}"
    yield ""
    yield f"| | {' | '.join(_HEAD)} |"
    yield f"|---|{'---|' * len(_HEAD)}"
    for name, group in made.groups:
        yield line_of(name, group)
    yield ""


def line_of(name: str, group: Group) -> str:
    """Return a line of a table for a group."""
    return (
        f"| {name} | {len(group.compared)} | {group.median:.0%} | {group.nine_in_ten:.0%} | "
        f"{group.bias:+.0%} | {group.inside:.0%} | {group.width:.2f} |"
    )


def _rest() -> Iterable[str]:
    yield "## Hardware for models left out, in published throughput"
    yield ""
    choices = contests("model")
    first, found = (sum(getattr(one, name) for one in choices) for name in ("is_first", "is_found"))
    yield (
        f"The best published hardware per chip ranks first in {first} of {len(choices)} choices, "
        f"and among the first two in {found}."
    )
    yield ""
    yield "## All-to-all kernels"
    yield ""
    yield "Compared with DeepEP's own kernels, on up to 32 hosts; only two were used for a fit."
    yield ""
    yield "| kernels | times | median error | worst |"
    yield "|---|---|---|---|"
    for backend in sorted({one.backend for one in kernels()}):
        errors = sorted(abs(one.error) for one in kernels() if one.backend == backend)
        yield f"| {backend} | {len(errors)} | {median(errors):.0%} | {errors[-1]:.0%} |"
    yield ""


Figure = Callable[[list[Row]], float | None]


def figure(key: str, **of: str) -> Figure:
    """Return a figure of the row that has some values."""

    def value(rows: list[Row]) -> float | None:
        found = [row for row in rows if of.items() <= row.items()]
        return found[0].get(key) if found else None

    return value
