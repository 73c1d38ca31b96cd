"""The dashboards of a platform that serves: every panel has curves, in a real browser, too."""

import json
import re
import shutil
import subprocess
import time
import urllib.request

import pytest

from gke_inference.observability.alert_source import alerts
from gke_inference.observability.dashboard_source import dashboards
from gke_inference.observability.promql import Dialect
from infra.arguments.observability import scope
from infra.plan import resolve
from infra.reading.load import read
from scripts.shared.dashboard_files import publish
from scripts.shared.model_client import stream_chat
from twin.cluster.monitoring.promql import query

pytestmark = pytest.mark.needs_tools
_DIALECT = Dialect.MANAGED  # only names are compared
_SECONDS = 120


@pytest.fixture(scope="module")
def page(deployed):
    """URL of the page of a platform that was asked for a while."""
    (url,) = publish(resolve(read("local")), deployed.paths).values()
    assert url in deployed.shown
    return url


def empty_panels(address: str) -> list[str]:
    found: list[str] = []
    for board in dashboards(scope(resolve(read("local"))), window="1m"):
        for panel in board.panels:
            measured = [one for one in panel.queries if not one.is_limit]
            if not panel.may_be_empty and not all(query(address, one.expr) for one in measured):
                found.append(panel.title)
    return found


def test_after_some_traffic_every_panel_has_a_value(platform, page):
    address = page.split("/")[2]
    endpoint = platform.engine.outputs("local")["endpoint"]
    until = time.monotonic() + _SECONDS
    empty = ["all"]
    while empty and time.monotonic() < until:
        for model in ("llama-3.1-8b", "sql"):
            stream_chat(endpoint, model, "What is a queue for?", max_tokens=60)
        empty = empty_panels(address)
    assert empty == []


def test_the_alerts_of_the_stack_are_known_and_quiet(page):
    address = page.split("/")[2]
    assert known_alerts(address) >= {
        one.name for one in alerts(scope(resolve(read("local"))), _DIALECT)
    }
    assert query(address, 'ALERTS{alertname="NoReadyReplica",alertstate="firing"}') == []
    assert query(address, 'ALERTS{alertname="PickerAway",alertstate="firing"}') == []


def known_alerts(address: str) -> set[str]:
    with urllib.request.urlopen(f"http://{address}/api/v1/rules?type=alert", timeout=10) as answer:
        groups = json.load(answer)["data"]["groups"]
    return {rule["name"] for group in groups for rule in group["rules"]}


@pytest.mark.needs_browser
@pytest.mark.parametrize("name", ["overview", "engines", "gateway", "capacity"])
def test_a_browser_draws_every_panel(page, name):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    answer = subprocess.run(
        [*command, "--virtual-time-budget=15000", f"{page}?page={name}&range=300"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    dom = answer.stdout
    assert 'data-ready="yes"' in dom, "the page never had its answers"
    assert "no samples in this range" not in dom
    assert "does not answer" not in dom
    drawn = len(re.findall(r"<canvas", dom))
    assert drawn + dom.count("nothing of this kind yet") == dom.count('class="panel"')
    assert drawn >= 5
