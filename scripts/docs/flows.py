"""Pictures of what flows in a guide: boxes in a grid and arrows between neighbors, as SVG.

Pages show them on GitHub, on the site and without a network; Mermaid would load a script there.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

import yaml

_FILE: Final = Path(__file__).parent / "flows.yaml"
_WIDTH, _GAP, _EDGE, _LINE, _HEAD = 232, 50, 16, 17, 34
_ROW_GAP: Final = 34
_LONGEST_TITLE, _LONGEST_LINE = 25, 33
_ARROW: Final = re.compile(r"(?P<start>[\w-]+) (?P<kind>>|<>|\.>) (?P<end>[\w-]+)")
_KINDS: Final = {
    "outside": "outside the platform",
    "google": "a service of Google Cloud",
    "platform": "a program of the platform",
    "engine": "a replica or a node with accelerators",
}
"""Kinds of boxes, each with its line of the legend."""
_STYLE: Final = """\
svg{--back:#fff;--text:#202124;--soft:#3c4043;--line:#5f6368;--outside:#fff;--google:#e8f0fe;\
--platform:#e6f4ea;--engine:#fef7e0}
@media(prefers-color-scheme:dark){svg{--back:#1f2028;--text:#e8eaed;--soft:#c9cdd2;--line:#9aa0a6;\
--outside:#2b2d36;--google:#1d3557;--platform:#1e3d2b;--engine:#4a3a12}}
text{fill:var(--text)}.s{font-size:12px;fill:var(--soft)}.t{font-weight:600}
rect{stroke:var(--line);stroke-width:1.3}.back{fill:var(--back);stroke:none}
polyline{fill:none;stroke:var(--soft);stroke-width:1.5}.if{stroke-dasharray:5 4}
.tip{fill:var(--soft)}\
"""


@dataclass(frozen=True)
class _Box:
    kind: str
    title: str
    lines: tuple[str, ...]
    row: int
    column: int


def flows() -> dict[str, Callable[[], str]]:
    """Return the pictures by path, each with a function that returns its text."""
    found: dict[str, Any] = yaml.safe_load(_FILE.read_text())
    return {
        f"docs/images/{name}.svg": partial(picture, name, described)
        for name, described in found.items()
    }


def picture(name: str, described: Mapping[str, Any]) -> str:
    """Return a picture.

    Args:
        name: Name of the picture, for messages.
        described: `title`, `rows` of names with `.` for an empty cell, `boxes` by kind, and
            `arrows` between neighbors: `a > b`, `a <> b` both ways, `a .> b` only in some cases.

    Raises:
        ValueError: A text does not fit, or an arrow does not join neighbors.
    """
    boxes = _boxes(name, described)
    heights = [
        _HEAD + _LINE * max(len(box.lines) for box in boxes.values() if box.row == row)
        for row in range(len(described["rows"]))
    ]
    columns = 1 + max(box.column for box in boxes.values())
    kinds = [kind for kind in _KINDS if any(box.kind == kind for box in boxes.values())]
    width = 2 * _EDGE + columns * _WIDTH + (columns - 1) * _GAP
    bottom = _EDGE + sum(heights) + _ROW_GAP * (len(heights) - 1)
    height = bottom + 22 + _LINE * ((len(kinds) + 1) // 2)
    title = described["title"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="system-ui, Segoe UI, Roboto, sans-serif" font-size="14" '
        f'role="img" aria-label={quoteattr(title)}>',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto-start-reverse"><path class="tip" d="M0 0L10 5L0 10z"/>'
        "</marker></defs>",
        f'<rect class="back" width="{width}" height="{height}"/>',
    ]
    for box in boxes.values():
        parts += _drawn(box, _place(box, heights), heights[box.row])
    parts += [_line(name, each, boxes, heights) for each in described["arrows"]]
    for number, kind in enumerate(kinds):
        x = _EDGE + (number % 2) * (width // 2 - _EDGE)
        y = bottom + 16 + _LINE * (number // 2)
        parts += [
            f'<rect x="{x}" y="{y}" width="14" height="11" rx="2" fill="var(--{kind})"/>',
            f'<text x="{x + 20}" y="{y + 10}" class="s">{_KINDS[kind]}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def _boxes(name: str, described: Mapping[str, Any]) -> dict[str, _Box]:
    places = {
        one: (row, column)
        for row, ones in enumerate(described["rows"])
        for column, one in enumerate(ones.split())
        if one != "."
    }
    boxes: dict[str, _Box] = {}
    for kind, ones in described["boxes"].items():
        for key, text in ones.items():
            title, *lines = (part.strip() for part in text.split("|"))
            for part, longest in (
                (title, _LONGEST_TITLE),
                *((one, _LONGEST_LINE) for one in lines),
            ):
                if len(part) > longest:
                    raise ValueError(
                        f"{name}.{key}: must have at most {longest} characters, got {part!r}"
                    )
            boxes[key] = _Box(kind, title, tuple(lines), *places[key])
    if missing := set(places) - set(boxes):
        raise ValueError(f"{name}: must describe the boxes of its rows, got none for {missing}")
    return boxes


def _place(box: _Box, heights: list[int]) -> tuple[int, int]:
    """Return the left and upper edge of a box."""
    above = sum(heights[: box.row]) + _ROW_GAP * box.row
    return _EDGE + box.column * (_WIDTH + _GAP), _EDGE + above


def _drawn(box: _Box, place: tuple[int, int], height: int) -> list[str]:
    x, y = place
    texts = [
        f'<text x="{x + 11}" y="{y + 38 + _LINE * number}" class="s">{escape(line)}</text>'
        for number, line in enumerate(box.lines)
    ]
    return [
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{height}" rx="8" '
        f'fill="var(--{box.kind})"/>',
        f'<text x="{x + 11}" y="{y + 21}" class="t">{escape(box.title)}</text>',
        *texts,
    ]


def _line(name: str, arrow: str, boxes: Mapping[str, _Box], heights: list[int]) -> str:
    found = _ARROW.fullmatch(arrow)
    if found is None:
        raise ValueError(f"{name}: an arrow must be like 'a > b', got {arrow!r}")
    start, end = boxes[found["start"]], boxes[found["end"]]
    points = " ".join(f"{x},{y}" for x, y in _points(name, arrow, start, end, heights))
    first = ' marker-start="url(#a)"' if found["kind"] == "<>" else ""
    dashed = ' class="if"' if found["kind"] == ".>" else ""
    return f'<polyline points="{points}"{dashed}{first} marker-end="url(#a)"/>'


def _points(
    name: str, arrow: str, start: _Box, end: _Box, heights: list[int]
) -> list[tuple[int, int]]:
    rows, columns = end.row - start.row, end.column - start.column
    if max(abs(rows), abs(columns)) != 1:
        raise ValueError(f"{name}: an arrow must join neighbors, got {arrow!r}")
    (from_x, from_y), (to_x, to_y) = _place(start, heights), _place(end, heights)
    if not columns:
        x = from_x + _WIDTH // 2
        return (
            [(x, from_y + heights[start.row] + 1), (x, to_y - 1)]
            if rows > 0
            else [
                (x, from_y - 1),
                (x, to_y + heights[end.row] + 1),
            ]
        )
    out = from_x + _WIDTH + 1 if columns > 0 else from_x - 1
    into = to_x - 1 if columns > 0 else to_x + _WIDTH + 1
    level, other = from_y + heights[start.row] // 2, to_y + heights[end.row] // 2
    if not rows:
        return [(out, level), (into, level)]
    middle = (out + into) // 2
    return [(out, level), (middle, level), (middle, other), (into, other)]
