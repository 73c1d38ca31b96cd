"""The dashboards of a platform that serves: every panel has curves, in a real browser, too."""

import http.client
import json
import re
import subprocess
import time
import urllib.request
from contextlib import closing
from typing import Any

import pytest

from gke_inference.observability.alert_source import alerts
from gke_inference.observability.dashboard_source import dashboards
from gke_inference.observability.promql import Dialect
from infra.deploy.observability import scope
from infra.plan import resolve
from infra.reading.load import read
from scripts.check.series import Read, reads_of
from scripts.shared.dashboard_files import publish
from scripts.shared.model_client import stream_chat
from tests.browser import chromium_or_skip
from tests.platform.observe.record import exported, labels_of
from twin.cluster.monitoring.promql import query
from twin.wire.kube import Kube

pytestmark = pytest.mark.needs_tools
_DIALECT = Dialect.MANAGED  # only names are compared
_SECONDS = 120
NOT_OF_THIS_STACK = {
    "inference_extension_flow_control_queue_size": "without gateway.fairness, pickers hold nothing",
}
"""Series that parts of the stack read and that it cannot export on the twin, and why."""


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


def objects_that_read(platform) -> list[dict[str, Any]]:
    """Return the autoscalers and recording rules of the cluster."""
    (kubeconfig,) = platform.paths.root.glob("clusters/*/kubeconfig")
    kube = Kube(kubeconfig)
    paths = {
        "HorizontalPodAutoscaler": "/apis/autoscaling/v2/horizontalpodautoscalers",
        "Rules": "/apis/monitoring.googleapis.com/v1/rules",
    }
    return [{**each, "kind": kind} for kind, path in paths.items() for each in kube.list(path)]


def never_exported(reads: list[Read], labels: dict[str, set[str]]) -> set[Read]:
    return {
        read for read in reads if not (read.name in labels and labels[read.name] >= {*read.labels})
    }


def ask_for_a_refusal(endpoint: str) -> None:
    """Send what the body router refuses, of which it counts nothing before the first."""
    connection = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=10)
    with closing(connection):
        connection.request("POST", "/v1/completions", b"no JSON")
        assert connection.getresponse().status == 400


def test_every_series_that_the_stack_reads_was_exported_with_the_labels_it_is_asked_for_by(
    platform, page
):
    address, endpoint = page.split("/")[2], platform.engine.outputs("local")["endpoint"]
    reads = reads_of(resolve(read("local")), objects_that_read(platform))
    assert {each.place.split()[0] for each in reads} == {"alert", "autoscaler", "panel", "rules"}
    until, never = time.monotonic() + _SECONDS, set(reads)
    while {each.name for each in never} != NOT_OF_THIS_STACK.keys() and time.monotonic() < until:
        ask_for_a_refusal(endpoint)
        stream_chat(endpoint, "sql", "What is a queue for?")
        never = never_exported(reads, labels_of([exported(address)]))
    wrong = [str(each) for each in sorted(never) if each.name not in NOT_OF_THIS_STACK]
    assert wrong == []
    assert {each.name for each in never} == NOT_OF_THIS_STACK.keys(), "some are exported, or unread"


@pytest.mark.usefixtures("page")
def test_what_the_tests_of_alerts_know_of_series_is_what_the_stack_exports(
    platform, series_are_recorded
):
    series_are_recorded(platform.paths, "local")


def test_the_alerts_of_the_stack_are_known_and_quiet(page):
    address = page.split("/")[2]
    assert known_alerts(address) >= {
        one.name for one in alerts(scope(resolve(read("local"))), _DIALECT)
    }
    assert query(address, 'ALERTS{alertname="NoReadyReplica",alertstate="firing"}') == []
    assert query(address, 'ALERTS{alertname="EndpointPickerDown",alertstate="firing"}') == []


def known_alerts(address: str) -> set[str]:
    with urllib.request.urlopen(f"http://{address}/api/v1/rules?type=alert", timeout=10) as answer:
        groups = json.load(answer)["data"]["groups"]
    return {rule["name"] for group in groups for rule in group["rules"]}


@pytest.mark.needs_browser
@pytest.mark.parametrize("name", ["overview", "engines", "gateway", "capacity"])
def test_a_browser_draws_every_panel(page, name):
    browser = chromium_or_skip()
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
