"""Draws cost against latency as SVG."""

import importlib
from pathlib import Path
from typing import Any

from gke_inference.catalogue.input_error import InputError
from planner.choice.plan import Choice, Plan, best_forms

_COLOURS = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
    "#bcbd22", "#17becf", "#000000",
)  # fmt: skip
_NAMED = 8
_MOST = 40


def draw(answer: Plan, file: Path) -> int:
    """Draw the cheapest forms with a price, 40 at most, and return their number.

    Filled marks meet the SLO. Both axes are logarithmic; lines are 80 % intervals.

    Raises:
        ValueError: No choice has a price.
    """
    priced = [one for one in best_forms(answer.choices) if one.usd_per_million is not None]
    shown = priced[:_MOST]
    if not shown:
        raise InputError("chart", "must have a choice with a price", None)
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gke-inference"  # the same plan draws the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(10, 6), layout="constrained")
    words = list(dict.fromkeys(one.candidate.form.word for one in shown))
    for number, one in enumerate(shown):
        colour = _COLOURS[words.index(one.candidate.form.word) % len(_COLOURS)]
        _mark(axes, one, colour, is_named=number < _NAMED)
    for number, word in enumerate(words):
        axes.plot([], [], "o", color=_COLOURS[number % len(_COLOURS)], label=word)
    _label(axes, answer)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return len(shown)


def _mark(axes: Any, one: Choice, colour: str, *, is_named: bool) -> None:
    """Draw a choice with its intervals."""
    cost, latency, form = one.usd_per_million, one.tpot_p95_ms, one.candidate.form
    if cost is None:
        return
    axes.errorbar(
        [latency.value], [cost.value],
        xerr=[[latency.value - latency.low], [latency.high - latency.value]],
        yerr=[[cost.value - cost.low], [cost.high - cost.value]],
        fmt="o", color=colour, mfc=colour if one.keeps_promise else "white",
        elinewidth=0.5, alpha=0.8,
    )  # fmt: skip
    if is_named:
        axes.annotate(
            f"{form.label} {form.bits} bit {one.provisioning}",
            (latency.value, cost.value), xytext=(5, 5), textcoords="offset points", fontsize=7,
        )  # fmt: skip


def _label(axes: Any, answer: Plan) -> None:
    asked = answer.question
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.axvline(asked.tpot_p95_ms, color="#808080", linewidth=0.8, linestyle="--")
    axes.set_xlabel("ms between tokens, 95th percentile (dashed: the SLO)", fontsize=9)
    axes.set_ylabel("$ for a million tokens of answers", fontsize=9)
    axes.set_title(
        f"{asked.model.name}: {asked.rate:g} requests/s, {asked.given} tokens in, {asked.made} out",
        fontsize=10,
    )
    axes.legend(fontsize=7, loc="best")
    axes.grid(True, which="major", linewidth=0.3)
