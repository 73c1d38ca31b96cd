"""The gateway's log: what of it is shown, and what must never be in it."""

import json
import re

import pytest

from scripts.observe.access_log import entries, is_wanted
from scripts.operate.logs import shown
from twin.cluster.gateway.envoy.access_log import fields_of
from twin.cluster.gateway.translation.model import Chain, GatewayModel, Processor

ROUTER = Processor("extension/models/gateway/router/model-name", ())
MODEL = GatewayModel("ns", "gw", "127.0.0.1", routing_chains=(Chain("ns/e/c", (ROUTER,)),))
ENTRY = {
    "code": 503,
    "details": "no_healthy_upstream",
    "duration_ms": 4,
    "endpoint": None,
    "method": "POST",
    "model": "llama-3.1-8b",
    "path": "/v1/chat/completions",
    "time": "2026-11-21T12:40:48.202Z",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}


@pytest.mark.parametrize(
    ("model", "status", "trace", "wanted"),
    [
        ("", "", "", True),
        ("llama-3.1-8b", "503", "0af7", True),
        ("", "5xx", "", True),
        ("", "4xx", "", False),
        ("", "500", "", False),
        ("sql", "", "", False),
        ("", "", "ffff", False),
    ],
)
def test_filters_all_have_to_fit(model, status, trace, wanted):
    assert is_wanted(ENTRY, model, status, trace) is wanted


def test_a_line_names_status_time_model_and_trace():
    text = shown(ENTRY)
    for part in ("503", "4 ms", "llama-3.1-8b", "0af76519", "no_healthy_upstream"):
        assert part in text


def test_what_is_being_written_is_read_when_it_is_whole(tmp_path):
    file = tmp_path / "gateway-a.access.jsonl"
    whole = json.dumps(ENTRY) + "\n"
    file.write_text(whole + whole[:20])
    files = {file: 0}
    assert len(list(entries(files))) == 1
    file.write_text(whole + whole)
    assert list(entries(files)) == [ENTRY]


def test_nothing_of_a_body_or_a_credential_is_logged():
    formats = json.dumps(fields_of(MODEL)).lower()
    formats = re.sub("request_body(_us|_total_latency_us)", "", formats)  # times, not content
    assert "model-name" in formats
    for word in ("body", "authorization", "cookie", "dynamic_metadata"):
        assert word not in formats
