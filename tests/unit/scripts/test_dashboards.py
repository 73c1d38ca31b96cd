"""Dashboards for Grafana and the page of the twin: from the same source, and self-contained."""

import base64
import json
import re
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gke_inference.observability.alert_source import runbook_name, sources
from gke_inference.observability.dashboard_source import UNITS, dashboards
from infra.deploy.observability import scope
from infra.plan import resolve
from infra.reading.load import read
from scripts.observe import page
from scripts.observe.grafana import WINDOW
from scripts.observe.page import console_page
from scripts.operate.dashboards import publish, write_grafana
from scripts.shared import dashboard_files
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


def scripts_of(text) -> list[Any]:
    """Return what a page draws, and the sources of the scripts behind it."""
    first, *others = [
        base64.b64decode(found).decode()
        for found in re.findall(r'src="data:text/javascript;charset=utf-8;base64,([^"]+)"', text)
    ]
    return [json.loads(first.removeprefix("window.DASHBOARDS = ").removesuffix(";")), *others]


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def test_grafana_gets_the_same_panels_as_cloud_monitoring(written, platform):
    for meant in dashboards(scope(resolve(platform))):
        assert [panel["title"] for panel in panels(written[meant.name])] == [
            panel.title for panel in meant.panels
        ]


def test_grafana_gets_its_own_window_and_asks_for_a_data_source(written, platform):
    made = {p.name: p for p in dashboards(scope(resolve(platform)), window=WINDOW)}
    for name, board in written.items():
        assert [v["name"] for v in board["templating"]["list"]] == ["source"]
        for panel, meant in zip(panels(board), made[name].panels, strict=True):
            assert set(panel) >= PANEL
            assert panel["datasource"]["uid"] == "${source}"
            assert [t["expr"] for t in panel["targets"]] == [q.expr for q in meant.queries]
            assert [t["refId"] for t in panel["targets"]] == [*"ABCD"][: len(meant.queries)]


def test_grafana_gets_units_in_its_own_notation(written):
    units = {
        panel["title"]: panel["fieldConfig"]["defaults"]["unit"]
        for board in written.values()
        for panel in panels(board)
    }
    assert units["KV cache in use"] == "percentunit"
    assert units["Accelerator duty cycle"] == "percent"
    assert units["Load balancer to last byte, p95"] == "ms"
    assert units["Decision time"] == "s"
    assert units["Answered requests"] == "reqps"
    assert units["Tokens"] == "cps"
    assert units["Cost per hour"] == units["Current cost per million tokens"] == "currencyUSD"
    assert units["Requests waiting"] == units["Ready replicas"] == "short"


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
    pages = dashboards(scope(resolve(platform)), window="1m")
    text = console_page("acme prod", "acme-prod-us-central1", pages)
    assert "{{" not in text
    assert re.findall(r'(?:src|href)="(?!data:|/)[^"]*', text) == []
    (data, *_) = scripts_of(text)
    assert [one["name"] for one in data["pages"]] == [one.name for one in pages]
    assert data["cluster"] == "acme-prod-us-central1"


def test_the_page_says_how_fast_the_clock_of_the_alerts_runs(platform):
    pages = dashboards(scope(resolve(platform)))
    (data, *_) = scripts_of(console_page("t", "c", pages, 100))
    assert data["speed"] == 100
    assert "window.DASHBOARDS.speed" in SCRIPT.read_text()


def test_an_alert_on_the_page_links_to_its_runbook_which_the_page_serves(tmp_path, monkeypatch):
    monkeypatch.setattr(dashboard_files.clusters, "folders", lambda _paths: [tmp_path])
    monkeypatch.setattr(dashboard_files, "address_of", lambda _folder: "127.0.0.1:9090")
    monkeypatch.setattr(
        dashboard_files.ClusterSpec, "load", lambda _folder: SimpleNamespace(name="c")
    )
    dashboard_files.publish(resolve(read("local")), TwinPaths(tmp_path))
    served = tmp_path / "prometheus" / "consoles" / "runbooks"
    names = {f"{runbook_name(alert['name'])}.html" for alert in sources()}
    assert {file.name for file in served.iterdir()} == names
    text = (served / "tpot-slow-burn.html").read_text()
    assert "# TPOTSlowBurn" in text
    assert "{{" not in text.replace('{{"{{"}}', "")
    assert 'link.href = "runbooks/"' in SCRIPT.read_text()


def test_the_page_has_a_tile_for_each_panel_that_asks_for_one(platform):
    (data, *_) = scripts_of(console_page("t", "c", dashboards(scope(resolve(platform)))))
    panels_ = [panel for one in data["pages"] for row in one["rows"] for panel in row["panels"]]
    assert [
        (panel["tile"]["title"], panel["unit"]["suffix"], panel["tile"]["reduce"])
        for panel in panels_
        if panel["tile"] is not None
    ] == [
        ("Answered", "req/s", "sum"),
        ("Tokens", "tokens/s", "sum"),
        ("First token, p95", "", "max"),
        ("Per token, p95", "", "max"),
        ("Waiting", "requests", "sum"),
        ("Replicas", "", "sum"),
        ("Million tokens", "", "max"),
        ("List price", "/ h", "sum"),
    ]


# What the page writes for a value of each unit, in the words of the YAML.
WRITTEN = [
    ("bytes", 167_300_000, "167.3M"),
    ("bytes/s", 2_600_000_000, "2.6G"),
    ("count", 12_345, "12.3k"),
    ("milliseconds", 250, "250 ms"),
    ("milliseconds", 1500, "1.5 s"),
    ("percent", 42.4, "42 %"),
    ("ratio", 0.034, "3.4 %"),
    ("ratio", 0.5, "50 %"),
    ("requests", 7, "7"),
    ("requests/s", 0.25, "0.25"),
    ("seconds", 0, "0"),
    ("seconds", 0.0321, "32 ms"),
    ("seconds", 2.5, "2.5 s"),
    ("tokens/s", 2_500_000, "2.5M"),
    ("usd", 1.234, "$1.23"),
    ("usd/h", 123.4, "$123"),
    ("usd", None, "\u2013"),
]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not on PATH")
def test_the_page_writes_a_value_as_its_unit_says():
    script = SCRIPT.read_text()
    formatting = script[script.index("const short") : script.index("const ask =")]
    cases = json.dumps([[value, asdict(UNITS[unit])] for unit, value, _ in WRITTEN])
    run = f"{formatting}\nconsole.log(JSON.stringify({cases}.map(([v, u]) => shown(v, u))));"
    answer = subprocess.run(["node", "-e", run], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == [text for _, _, text in WRITTEN]
    assert {unit for unit, _, _ in WRITTEN} == set(UNITS)


def test_the_page_formats_every_style_of_a_unit():
    block = SCRIPT.read_text().partition("const STYLES = {")[2].partition("};")[0]
    assert set(re.findall(r"^\s+(\w+):", block, re.MULTILINE)) == {
        unit.style for unit in UNITS.values()
    }


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
