"""The page of a stack's dashboards, which Prometheus serves as a console, without a network."""

import base64
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gke_inference.observability.dashboard_source import Dashboard

NAME = "index.html"
"""Prometheus serves it as `/consoles/index.html`."""
_FOLDER = Path(__file__).parent
_SCRIPTS = ("vendor/uPlot.iife.min.js", "page.js")
_STYLES = ("vendor/uPlot.min.css", "page.css")


def console_page(title: str, cluster: str, dashboards: tuple[Dashboard, ...]) -> str:
    """Return the page as a console template.

    Prometheus processes consoles with Go's html/template. Scripts and styles are in data URLs,
    which the template engine neither executes nor escapes.
    """
    data = {"title": title, "cluster": cluster, "pages": [_plain(page) for page in dashboards]}
    config = f"window.DASHBOARDS = {json.dumps(data)};"
    styles = "".join(
        f'<link rel="stylesheet" href="{_data_url("text/css", _read(name))}">\n' for name in _STYLES
    )
    scripts = "".join(
        f'<script src="{_data_url("text/javascript", text)}"></script>\n'
        for text in (config, *map(_read, _SCRIPTS))
    )
    return (
        _read("page.html").replace("<!-- styles -->", styles).replace("<!-- scripts -->", scripts)
    )


def _plain(page: Dashboard) -> dict[str, Any]:
    return asdict(page)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _data_url(kind: str, text: str) -> str:
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"
