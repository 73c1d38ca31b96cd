"""Dashboards for Grafana and the page of the twin: from the same source, and self-contained."""

import base64
import json
import re
from pathlib import Path

import pytest

from gke_inference.observability.dashboard_source import dashboards
from gke_inference.observability.promql import Dialect
from infra.arguments.observability import scope
from infra.plan import resolve
from infra.reading.load import read
from scripts.dashboards import publish, write_grafana
from scripts.observe import page
from scripts.observe.grafana import WINDOW
from scripts.observe.page import console_page
from twin.cluster.base.context import ClusterSpec
from twin.host.paths import TwinPaths

SCRIPT = Path(page.__file__).parent / "page.js"
# Fields of a time series panel in Grafana 11 that an import cannot do without.
PANEL = {"datasource", "fieldConfig", "gridPos", "options", "targets", "title", "type"}


@pytest.fixture(scope="module")
def platform():
    return read("prod")


@pytest.fixture(scope="module")
def written(platform, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dashboards")
    return {
        file.stem: json.loads(file.read_text()) for file in write_grafana(resolve(platform), folder)
    }


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def test_grafana_gets_the_same_panels_as_cloud_monitoring(written, platform):
    for meant in dashboards(scope(resolve(platform)), Dialect.MANAGED):
        assert [panel["title"] for panel in panels(written[meant.name])] == [
            panel.title for panel in meant.panels
        ]


def test_grafana_gets_its_own_window_and_asks_for_a_data_source(written, platform):
    made = {p.name: p for p in dashboards(scope(resolve(platform)), Dialect.MANAGED, WINDOW)}
    for name, board in written.items():
        assert [v["name"] for v in board["templating"]["list"]] == ["source"]
        for panel, meant in zip(panels(board), made[name].panels, strict=True):
            assert set(panel) >= PANEL
            assert panel["datasource"]["uid"] == "${source}"
            assert [t["expr"] for t in panel["targets"]] == [q.expr for q in meant.queries]
            assert [t["refId"] for t in panel["targets"]] == ["A", "B", "C"][: len(meant.queries)]


def test_limits_are_dashed_in_grafana(written):
    panel = next(p for p in panels(written["overview"]) if p["title"] == "Time to first token, p95")
    (override,) = panel["fieldConfig"]["overrides"]
    assert override["matcher"] == {"id": "byFrameRefID", "options": "B"}
    assert {p["id"] for p in override["properties"]} == {
        "color",
        "custom.fillOpacity",
        "custom.lineStyle",
    }


def test_grafana_panels_do_not_overlap(written):
    for board in written.values():
        taken = set()
        for panel in board["panels"]:
            at = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(at["x"], at["x"] + at["w"])
                for y in range(at["y"], at["y"] + at["h"])
            }
            assert not cells & taken, panel["title"]
            taken |= cells


def test_the_page_needs_no_network_and_nothing_that_a_template_would_run(platform):
    pages = dashboards(scope(resolve(platform)), Dialect.PROMETHEUS, "1m")
    text = console_page("acme prod", "acme-prod-us-central1", pages)
    assert "{{" not in text
    assert re.findall(r'(?:src|href)="(?!data:|/)[^"]*', text) == []
    scripts = [
        base64.b64decode(found).decode()
        for found in re.findall(r'src="data:text/javascript;charset=utf-8;base64,([^"]+)"', text)
    ]
    data = json.loads(scripts[0].removeprefix("window.DASHBOARDS = ").removesuffix(";"))
    assert [one["name"] for one in data["pages"]] == [one.name for one in pages]
    assert data["cluster"] == "acme-prod-us-central1"


def test_the_page_shows_tiles_of_panels_that_there_are(platform):
    script = SCRIPT.read_text()
    block = script[script.index("const TILES") : script.index("const instant")]
    made = dashboards(scope(resolve(platform)), Dialect.PROMETHEUS)
    titles = {panel.title for one in made for panel in one.panels}
    named = re.findall(r'\["([^"]+)", "[^"]+", "[^"]*", "(?:sum|max)"\]', block)
    assert len(named) == 8
    assert set(named) <= titles


def test_only_clusters_with_a_prometheus_get_a_page(platform, tmp_path):
    paths = TwinPaths(tmp_path)
    paths.create()
    for name in ("with", "without"):
        spec = ClusterSpec("acme", "us-central1", name, ("us-central1-a",), False, "1.36", name)
        spec.save(paths.cluster("us-central1", name))
    folder = paths.cluster("us-central1", "with") / "prometheus"
    folder.mkdir()
    (folder / "address").write_text("127.0.0.1:9999\n")
    assert publish(resolve(platform), paths) == {
        "with": "http://127.0.0.1:9999/consoles/index.html"
    }
    assert (folder / "consoles" / "index.html").read_text().startswith("<!doctype html>")
