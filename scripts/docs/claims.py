"""The page of published claims, and its chart."""

import math
from xml.sax.saxutils import escape

from planner.unit_cost.claims import Claim
from scripts.docs.notice import NOTICE
from scripts.plan.claims import all_claims, spanned
from twin.drawings.svg import DARK

_OPENING = """\
# Published claims

Headline figures that readers of this project have heard, each next to what this project computes or
measures. `gke-inference plan --claims` prints the same figures. None of them is a measurement of
this project on a rented chip: they are published measurements, prices of the catalog, and simulated
engines behind the real endpoint picker ([routing laboratory](routing-laboratory.md)). Claims,
sources and conditions are in [claims.yaml](../planner/data/claims.yaml). *Known* next to a source
means that its text could not be read again.

*Holds* compares a figure with the lower end of the claim, with two digits. *Partly* means that only
a part of its range meets the claim, and *not independent* that the claim is the source of the
figure, which therefore cannot confirm it. A claim of *up to* holds if the figure, a best case,
meets it.

![Computed over claimed, by claim](images/published-claims.svg)

| claim | result here | holds |
|---|---|---|
"""
_WIDTH, _LEFT, _ROW, _TOP = 820, 300, 26, 40
_COLORS = {"yes": "#2ca02c", "partly": "#ff7f0e", "no": "#d62728", "not independent": "#999999"}
_LEAST, _MOST = 0.05, 10.0


def claims_page() -> str:
    """Return docs/published-claims.md."""
    found = all_claims()
    lines = [f"| [{one.title}](#{_anchor(one.title)}) | {_result(one)} |" for one in found]
    sections = [line for one in found for line in _section(one)]
    return NOTICE + _OPENING + "\n".join([*lines, *sections, ""])


def _anchor(title: str) -> str:
    kept = "".join(each for each in title.lower() if each.isalnum() or each in " -_")
    return kept.replace(" ", "-")


def _result(one: Claim) -> str:
    if not one.figures:
        return "cannot be computed | "
    first = one.figures[0]
    return f"{spanned(first)} | {one.verdict(first)}"


def _section(one: Claim) -> list[str]:
    lines = [
        "",
        f"## {one.title}",
        "",
        f"- **Claim**: {one.claimed}. {one.by}, {one.source}, {one.date} ({one.confidence}).",
        f"- **Requires**: {one.requires}.",
        f"- **Command**: `{one.command}`",
    ]
    if one.settles:
        lines.append(f"- **Settled by**: {one.settles}.")
    if one.figures:
        lines += ["", "| figure | result | holds |", "|---|---|---|"]
        lines += [f"| {each.of} | {spanned(each)} | {one.verdict(each)} |" for each in one.figures]
    return [*lines, "", one.note] if one.note else lines


def claims_chart() -> str:
    """Return a chart: a bar for each claim, computed over claimed, on a logarithmic axis."""
    bars = [one for one in all_claims() if one.target is not None and one.figures]
    height = _TOP + _ROW * len(bars) + 50
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        DARK,
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="22">computed over claimed, first figure of each claim; line: its '
        "range</text>",
    ]
    bottom = _TOP + _ROW * len(bars)
    for mark in (0.1, 0.5, 1.0, 2.0, 5.0):
        x = _at(mark)
        stroke = "#333" if mark == 1.0 else "#ddd"
        lines.append(
            f'<line x1="{x:.1f}" y1="{_TOP - 8}" x2="{x:.1f}" y2="{bottom}" stroke="{stroke}"/>'
        )
        lines.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{mark:g}</text>')
    for number, one in enumerate(bars):
        lines += _bar(one, _TOP + _ROW * number)
    return "\n".join([*lines, "</svg>", ""])


def _bar(one: Claim, y: int) -> list[str]:
    first, target = one.figures[0], one.target or 1.0
    parts = [_share(each, target, one) for each in (first.value, first.low, first.high)]
    middle, low, high = parts[0], min(parts), max(parts)
    start, end, left, right = _at(_LEAST), _at(middle), _at(low), _at(high)
    color = _COLORS[one.verdict(first)]
    line = y + _ROW // 2 - 2
    return [
        f'<text x="{_LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(one.title)}</text>',
        f'<rect x="{start:.1f}" y="{y + 3}" width="{end - start:.1f}" height="{_ROW - 10}" '
        f'fill="{color}" fill-opacity="0.7"/>',
        f'<line x1="{left:.1f}" y1="{line}" x2="{right:.1f}" y2="{line}" stroke="#333"/>',
    ]


def _share(value: float, target: float, one: Claim) -> float:
    return target / value if one.below else value / target


def _at(share: float) -> float:
    """Return the place on the axis; what is beyond an end is at the end."""
    kept = min(max(share, _LEAST), _MOST)
    part = math.log(kept / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + part * (_WIDTH - _LEFT - 20)
