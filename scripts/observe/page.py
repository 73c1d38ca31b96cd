"""The page of a stack's dashboards, which Prometheus serves as a console, without a network."""

import base64
import html
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


def runbook_page(name: str, text: str) -> str:
    """Return a runbook as a console template: its text, as it is written.

    Args:
        name: Name of the alert's runbook, such as `no-ready-replica`.
        text: The runbook in Markdown.
    """
    shown = html.escape(text).replace("{{", '{{"{{"}}')
    style = "max-width: 60em; margin: 2em auto; padding: 0 1em; white-space: pre-wrap"
    head = f'<meta charset="utf-8"><title>{html.escape(name)}</title>'
    return f'<!doctype html><html lang="en">{head}<pre style="{style}">{shown}</pre></html>\n'


def console_page(
    title: str, cluster: str, dashboards: tuple[Dashboard, ...], speed: float = 1
) -> str:
    """Return the page as a console template.

    Args:
        title: Title of the stack.
        cluster: Name of the cluster.
        dashboards: What the page shows.
        speed: How many times as fast as the reader's the clock of the alerts runs.

    Prometheus processes consoles with Go's html/template. Scripts and styles are in data URLs,
    which the template engine neither executes nor escapes.
    """
    data = {
        "title": title,
        "cluster": cluster,
        "pages": [_plain(page) for page in dashboards],
        "speed": speed,
    }
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
