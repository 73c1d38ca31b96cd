"""Draws the changed part of a platform: Mermaid for a comment, SVG for a file."""

from collections.abc import Iterator
from html import escape

from scripts.verdicts.changes import Kind
from scripts.verdicts.topology import Cluster, Node, Topology
from twin.drawings.svg import DARK

_COLOURS: dict[str, tuple[str, str]] = {
    "create": ("#dcfce7", "#15803d"),
    "safe": ("#e0f2fe", "#0369a1"),
    Kind.RESTARTS: ("#fef9c3", "#a16207"),
    Kind.REPLACES: ("#ffedd5", "#c2410c"),
    Kind.DESTROYS: ("#fee2e2", "#b91c1c"),
    "same": ("#f4f4f5", "#71717a"),
}
"""Fill and stroke."""
_SAYS = {
    "create": "new",
    "safe": "changed in place",
    Kind.RESTARTS: "restarts",
    Kind.REPLACES: "replaced",
    Kind.DESTROYS: "destroyed",
    "same": "",
}
_MOST_NODES = 40
_SPECIAL = frozenset('"#&<>`\\\n\r')
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _EDGE = 226, 44, 46, 12, 16


def style_of(action: str, gravity: Kind | None) -> str:
    """Return the key of a node's style and label."""
    if not action:
        return "same"
    return "create" if action == "create" else (gravity or Kind.SAFE).value


def mermaid(topology: Topology) -> str:
    """Return a flowchart, cut after 40 nodes; empty if there is nothing to draw."""
    if not topology.clusters:
        return ""
    lines = ["flowchart LR"]
    left = _MOST_NODES
    for number, cluster in enumerate(topology.clusters):
        kept = cluster.nodes[: max(left, 0)]
        left -= len(kept)
        said = _SAYS[style_of(cluster.action, cluster.gravity)]
        title = f"{cluster.name}: {said}" if said else cluster.name
        lines.append(f'  subgraph c{number}["{_quoted(title)}"]')
        lines += [f"    {_mermaid_node(number, at, node)}" for at, node in enumerate(kept)]
        if len(kept) < len(cluster.nodes):
            lines.append(f'    c{number}more["and {len(cluster.nodes) - len(kept)} more"]')
        lines.append("  end")
        lines += [
            f"  c{number}n{a} --> c{number}n{b}"
            for a, b in cluster.edges
            if a < len(kept) and b < len(kept)
        ]
        if cluster.action:
            fill, stroke = _COLOURS[style_of(cluster.action, cluster.gravity)]
            lines.append(f"  style c{number} fill:{fill},stroke:{stroke}")
    for name, (fill, stroke) in _COLOURS.items():
        lines.append(f"  classDef {_class(name)} fill:{fill},stroke:{stroke},color:#18181b")
    return "\n".join(lines)


def _mermaid_node(cluster: int, at: int, node: Node) -> str:
    style = style_of(node.action, node.gravity)
    said = f"<br/>{_SAYS[style]}" if _SAYS[style] else ""
    return f'c{cluster}n{at}["{_quoted(f"{node.kind} {node.name}")}{said}"]:::{_class(style)}'


def _class(style: str) -> str:
    return f"is_{style}"


def _quoted(text: str) -> str:
    """Return a text escaped for quotes in Mermaid."""
    return "".join(f"#{ord(char)};" if char in _SPECIAL else char for char in text)


def svg(topology: Topology, title: str) -> str:
    """Return the same diagram as an SVG document."""
    parts: list[str] = []
    top, right = 40, 240
    for cluster in topology.clusters:
        drawn, height, width = _svg_cluster(cluster, top)
        parts += drawn
        top, right = top + height + 20, max(right, width)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + 20} {top}" '
        f'width="{right + 20}" height="{top}" font-family="system-ui, sans-serif" font-size="12">'
    )
    name = f'<text x="20" y="26" font-size="15">{escape(title)}</text>'
    return "\n".join([head, DARK, f"<title>{escape(title)}</title>", name, *parts, "</svg>", ""])


def _svg_cluster(cluster: Cluster, top: int) -> tuple[list[str], int, int]:
    """Return the elements of a cluster, its height and its right edge."""
    columns = sorted({node.column for node in cluster.nodes})
    rows = dict.fromkeys(columns, 0)
    places: list[tuple[int, int]] = []
    for node in cluster.nodes:
        x = 20 + _EDGE + columns.index(node.column) * (_WIDTH + _GAP_X)
        places.append((x, top + 34 + rows[node.column] * (_HEIGHT + _GAP_Y)))
        rows[node.column] += 1
    height = 34 + max(rows.values(), default=0) * (_HEIGHT + _GAP_Y) + 6
    width = max(_EDGE * 2 + len(columns) * (_WIDTH + _GAP_X) - _GAP_X, 320)
    fill, stroke = _COLOURS[style_of(cluster.action, cluster.gravity)]
    said = _SAYS[style_of(cluster.action, cluster.gravity)]
    label = f"{cluster.name}: {said}" if said else cluster.name
    parts = [
        f'<rect x="20" y="{top}" width="{width}" height="{height}" rx="8" fill="{fill}" '
        f'fill-opacity="0.35" stroke="{stroke}"/>',
        f'<text x="{20 + _EDGE}" y="{top + 21}" font-weight="600">{escape(label)}</text>',
    ]
    for a, b in cluster.edges:
        (x, y), (u, v) = places[a], places[b]
        ends = f'x1="{x + _WIDTH}" y1="{y + _HEIGHT // 2}" x2="{u}" y2="{v + _HEIGHT // 2}"'
        parts.append(f'<line {ends} stroke="#71717a"/>')
    for node, place in zip(cluster.nodes, places, strict=True):
        parts += _svg_node(node, *place)
    return parts, height, 20 + width


def _svg_node(node: Node, x: int, y: int) -> Iterator[str]:
    style = style_of(node.action, node.gravity)
    fill, stroke = _COLOURS[style]
    yield (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" fill="{fill}" '
        f'stroke="{stroke}"/>'
    )
    said = f": {_SAYS[style]}" if _SAYS[style] else ""
    yield f'<text x="{x + 8}" y="{y + 17}" fill="{stroke}">{escape(node.kind + said)}</text>'
    name = node.name if len(node.name) <= 28 else f"{node.name[:27]}…"
    yield (
        f'<text x="{x + 8}" y="{y + 34}" fill="#18181b">{escape(name)}'
        f"<title>{escape(node.name)}</title></text>"
    )
