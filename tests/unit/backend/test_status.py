"""`status`, `ask` and `logs` in Google Cloud: what a project shows, and refuses to show."""

import json
from datetime import UTC, datetime

import pytest

from scripts.backend.backend import Wanted
from scripts.backend.cloud_logs import filter_of
from scripts.operate.ask import ask
from scripts.operate.logs import logs
from scripts.operate.status import status
from scripts.terminal.console import CommandError
from scripts.terminal.output import Output
from scripts.terminal.where import Where
from tests.unit.backend.deployed_project import PROJECT, pod, spot_node
from tests.unit.bootstrap.fake_google import refused

FIRST = "gke-us-central1.us-central1.gke.goog"
GATE = f"{FIRST}/api/v1/namespaces/models/configmaps/weights-state"


def shown(capsys):
    status("prod", on=Where.CLOUD, output=Output.JSON)
    return json.loads(capsys.readouterr().out)


def test_replicas_of_a_project_have_their_rung_and_price(google, capsys):
    google.objects[f"{FIRST}/api/v1/nodes"] = {"items": [spot_node("n", "us-central1-a")]}
    google.objects[f"{FIRST}/api/v1/pods"] = {"items": [pod("llama-0", "n")]}
    found = shown(capsys)
    (replica,) = found["replicas"]
    assert replica["rung"] == "nvidia-l4 g2-standard-12 spot"
    assert (replica["state"], replica["zone"]) == ("ready", "us-central1-a")
    assert replica["cluster"] == "acme-prod-us-central1"
    assert 0 < replica["usd_per_hour"] == found["usd_per_hour"]
    assert found["gateway"] == "https://models.example.com"


def test_what_waits_for_weights_is_read_from_the_cluster(google, capsys):
    state = json.dumps({"open": False, "waits_for": "gs://m/_CURRENT.json"})
    google.objects[GATE] = {"data": {"llama-tpu": state}}
    (waits,) = shown(capsys)["waiting_for_weights"]
    assert (waits["model"], waits["waits_for"]) == ("llama", "gs://m/_CURRENT.json")


def test_only_methods_that_change_nothing_are_sent(google, capsys):
    shown(capsys)
    assert {method for method, _ in google.calls} == {"GET"}


def test_a_cluster_that_is_not_there_is_a_warning_beside_the_others(google, prod, capsys):
    gone = prod.regions["us-central1"]
    where = f"container.googleapis.com/v1/projects/{PROJECT}/locations/{gone.location}/clusters"
    del google.resources[f"{where}/{gone.cluster_name}"]
    status("prod", on=Where.CLOUD, output=Output.JSON)
    assert "there is no cluster acme-prod-us-central1" in capsys.readouterr().err


def test_a_project_without_the_stack_names_what_is_missing(google):
    google.clear()
    with pytest.raises(
        CommandError, match=r"must be up in project acme-inference-prod, got 'prod'"
    ):
        status("prod", on=Where.CLOUD)


@pytest.mark.parametrize(
    ("path", "answer", "says"),
    [
        (
            "container.googleapis.com",
            refused(403, "Required 'container.clusters.get'"),
            "project acme-inference-prod: no permission at container.googleapis.com: Required",
        ),
        (
            "container.googleapis.com",
            refused(403, "has not been used", "SERVICE_DISABLED"),
            "container.googleapis.com is not enabled in the project",
        ),
        (
            FIRST,
            (403, {"reason": "Forbidden", "message": "nodes is forbidden"}),
            "^cluster acme-prod-us-central1 refuses: nodes is forbidden$",
        ),
    ],
)
def test_what_google_or_a_cluster_refuses_is_one_line(google, path, answer, says):
    google.refusals[path] = answer
    with pytest.raises(CommandError, match=says):
        status("prod", on=Where.CLOUD)


def test_a_cluster_without_a_dns_endpoint_is_named(google):
    for name, cluster in google.resources.items():
        if "/clusters/" in name:
            cluster["controlPlaneEndpointsConfig"] = {}
    with pytest.raises(CommandError, match="acme-prod-us-central1 has no DNS endpoint"):
        status("prod", on=Where.CLOUD)


def test_a_gateway_that_this_machine_cannot_reach_is_named_with_its_url(google, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(111, "Connection refused")

    monkeypatch.setattr("socket.create_connection", refuse)
    with pytest.raises(
        CommandError, match=r"^https://models\.example\.com: cannot be reached from"
    ):
        ask("Hello", stack="prod", on=Where.CLOUD)


LINE = {
    "insertId": "a",
    "timestamp": "2026-11-22T12:40:48.202Z",
    "trace": f"projects/{PROJECT}/traces/0af7651916cd43dd8448eb211c80319c",
    "resource": {"labels": {"backend_target_name": "llama"}},
    "httpRequest": {
        "requestMethod": "POST",
        "requestUrl": "https://models.example.com/v1/chat/completions?x=1",
        "status": 503,
        "latency": "0.004s",
        "serverIp": "10.0.0.7",
    },
    "jsonPayload": {"statusDetails": "backend_timeout"},
}


def test_lines_of_cloud_logging_read_as_those_of_the_twin(google, capsys):
    google.logs = [LINE]
    logs(stack="prod", on=Where.CLOUD, status="5xx", trace="0af7")
    assert capsys.readouterr().out.split("  ") == [
        "2026-11-22T12:40:48.202Z", "503", "4 ms", "-", "10.0.0.7", "0af76519",
        "POST /v1/chat/completions", "backend_timeout\n",
    ]  # fmt: skip


def test_cloud_logging_is_asked_for_the_gateways_of_the_stacks_network_only():
    since = datetime(2026, 11, 22, tzinfo=UTC)
    assert filter_of("acme-prod-net", since, Wanted(status="5xx", trace="0af7")) == (
        'resource.type=("http_external_regional_lb_rule" OR "internal_http_lb_rule")'
        ' AND resource.labels.network_name="acme-prod-net"'
        ' AND timestamp>="2026-11-22T00:00:00+00:00"'
        " AND httpRequest.status>=500 AND httpRequest.status<600"
        ' AND trace:"traces/0af7"'
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"on": Where.CLOUD}, r"^--stack: is required with --on cloud$"),
        ({"stack": "prod"}, r"^--stack: must be omitted without --on cloud$"),
        ({"minutes": 5}, r"^--minutes: must be omitted without --on cloud$"),
        ({"on": Where.CLOUD, "stack": "prod", "model": "llama"}, r"^--model: must be omitted with"),
        ({"trace": '" OR true'}, r"^--trace: must be hexadecimal digits"),
    ],
)
def test_options_that_do_not_fit_each_other_are_refused(google, options, says):
    with pytest.raises(CommandError, match=says):
        logs(**options)
