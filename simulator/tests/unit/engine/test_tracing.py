"""Spans of the simulated engine: vLLM's attributes, the caller's trace, and no prompt."""

import json
import logging
from concurrent import futures

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services

from scripts.operate.trace import chosen, draw, waterfall
from simulator.engine import logs
from simulator.engine.request import Request
from simulator.server.tracing import export_request, span_attributes
from simulator.tests.unit.engine.support import deployment, serve
from twin.cluster.base.traces import SpanFile, plain_spans
from twin.cluster.gateway.envoy.tracing import CLUSTER, collector_cluster, send_spans
from twin.host.paths import TwinPaths

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def request():
    made = Request(id="7", prompt=(1, 2, 3), max_tokens=5, arrival=10.0, output=(4, 5))
    made.first_scheduled, made.first_token, made.last_token = 10.1, 10.3, 10.8
    made.generated = 2
    return made


def span(**changes):
    attributes = span_attributes(request(), "sql", 5, 0.9)
    return {
        "trace": TRACE,
        "parent": PARENT,
        "start": 1_000,
        "end": 901_000,
        "attributes": attributes,
        **changes,
    }


def test_the_times_of_a_request_are_those_of_its_stages():
    attributes = span_attributes(request(), "sql", 5, 0.9)
    times = {k.removeprefix("gen_ai.latency."): v for k, v in attributes.items() if "latency" in k}
    assert times == pytest.approx(
        {
            "e2e": 0.9,
            "time_in_model_decode": 0.5,
            "time_in_model_inference": 0.7,
            "time_in_model_prefill": 0.2,
            "time_in_queue": 0.1,
            "time_to_first_token": 0.3,
        }
    )
    assert attributes["gen_ai.usage.prompt_tokens"] == 3
    assert attributes["gen_ai.usage.completion_tokens"] == 2
    assert attributes["gen_ai.response.model"] == "sql"


def test_a_span_reaches_the_file_of_the_collector_over_otlp(tmp_path):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    services.add_TraceServiceServicer_to_server(SpanFile(tmp_path / "spans.jsonl"), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            services.TraceServiceStub(channel).Export(export_request([span()], "llama"), timeout=10)
    finally:
        server.stop(None).wait()
    (kept,) = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    assert (kept["trace"], kept["parent"], kept["service"]) == (TRACE, PARENT, "llama")
    assert kept["name"] == "llm_request"
    assert kept["attributes"]["gen_ai.usage.prompt_tokens"] == 3


def test_no_attribute_of_a_span_holds_a_prompt():
    assert {key for key in span()["attributes"] if "content" in key or "message" in key} == set()
    texts = [value for value in span()["attributes"].values() if isinstance(value, str)]
    assert texts == ["7", "sql"]


def test_a_trace_is_a_tree_in_the_order_of_time():
    (engine,) = plain_spans(export_request([span()], "llama"))
    gateway = {**engine, "id": PARENT, "parent": "", "name": "ingress", "start": 0, "end": 10**6}
    picker = {**engine, "id": "aa", "name": "picker", "start": 10, "end": 90}
    lines = waterfall([engine, picker, gateway])
    assert [(line.depth, line.span["name"]) for line in lines] == [
        (0, "ingress"),
        (1, "picker"),
        (1, "llm_request"),
    ]
    assert lines[2].begins == pytest.approx(0.001)
    assert lines[2].lasts == pytest.approx(0.9)


def test_the_last_trace_is_the_one_that_began_last():
    (first,) = plain_spans(export_request([span()], "llama"))
    (second,) = plain_spans(export_request([span(trace="f" * 32, start=2_000)], "llama"))
    assert chosen([second, first], "last") == [second]
    assert chosen([second, first], TRACE[:6]) == [first]


def test_a_gateway_without_a_collector_stays_as_it_is():
    listeners = {"port-80": {"filter_chains": [{"filters": [{"typed_config": {}}]}]}}
    send_spans(listeners, "")
    assert listeners["port-80"]["filter_chains"][0]["filters"] == [{"typed_config": {}}]
    assert collector_cluster("") == {}


def test_a_gateway_with_a_collector_sends_a_span_for_each_request():
    listeners = {"port-80": {"filter_chains": [{"filters": [{"typed_config": {}}]}]}}
    send_spans(listeners, "127.0.0.1:4317")
    tracing = listeners["port-80"]["filter_chains"][0]["filters"][0]["typed_config"]["tracing"]
    assert tracing["random_sampling"] == {"value": 100.0}
    assert list(collector_cluster("127.0.0.1:4317")) == [CLUSTER]


def test_an_attribute_that_is_no_plain_value_does_not_cost_the_spans(tmp_path):
    sent = export_request([span()], "llama")
    attributes = sent.resource_spans[0].scope_spans[0].spans[0].attributes
    attributes.add(key="list").value.array_value.values.add(string_value="a")
    attributes.add(key="nothing")
    file = tmp_path / "spans.jsonl"
    SpanFile(file).Export(sent, None)
    (kept,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert "a" in kept["attributes"]["list"]
    assert kept["attributes"]["nothing"] == ""


def test_a_waterfall_is_drawn_with_a_bar_for_each_span(tmp_path):
    spans = [
        {"id": "a", "parent": "", "trace": TRACE, "service": "gateway", "name": "ingress"},
        {"id": "b", "parent": "a", "trace": TRACE, "service": "llama", "name": "llm_request"},
    ]
    for number, one in enumerate(spans):
        one |= {"start": number * 10**6, "end": 5 * 10**6, "attributes": {}}
    files = [tmp_path / "once.svg", tmp_path / "twice.svg"]
    for file in files:
        draw(TwinPaths(tmp_path / "twin"), waterfall(spans), file)
    drawn = files[0].read_text()
    for words in ("ingress", "llm_request", "gateway", "5.0 ms", "4.0 ms", TRACE):
        assert words in drawn
    assert drawn == files[1].read_text()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"traceparent": f"00-{TRACE}-{PARENT}-01"}, {"trace_id": TRACE}),
        ({"traceparent": "nonsense"}, {}),
        ({}, {}),
    ],
)
def test_a_line_about_a_request_has_the_trace_of_its_caller(headers, expected, caplog):
    lines: list[dict[str, object]] = []

    class Handler(logging.Handler):
        def emit(self, record):
            lines.append(json.loads(logs.JsonFormatter().format(record)))

    async def ask(client, _engine):
        body = {"model": "llama-3.1-8b", "prompt": "Hello", "max_tokens": 2}
        answer = await client.post("/v1/completions", json=body, headers=headers)
        return answer.status

    handler = Handler()
    logging.getLogger("vllm").addHandler(handler)
    caplog.set_level(logging.INFO, "vllm")
    try:
        assert serve(deployment(), ask) == 200
    finally:
        logging.getLogger("vllm").removeHandler(handler)
    (line,) = [line for line in lines if "/v1/completions" in str(line["message"])]
    assert line["message"] == '"POST /v1/completions HTTP/1.1" 200'
    assert {key: line[key] for key in line if key == "trace_id"} == expected
    assert "Hello" not in json.dumps(lines)
