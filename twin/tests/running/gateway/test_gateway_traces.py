"""One request through the gateway is one trace: gateway, router, picker, engine."""

import json
from concurrent import futures

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services

from twin.cluster.base.traces import SpanFile, spans_file
from twin.tests.running.gateway.client import ask
from twin.tests.running.gateway.manifests import model_rules, route

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def collector(cluster):
    """A cluster whose gateway has a collector; the spans' file."""
    file = spans_file(cluster.dir)
    file.parent.mkdir(exist_ok=True)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    services.add_TraceServiceServicer_to_server(SpanFile(file), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    address = file.parent / "address"
    address.write_text(f"127.0.0.1:{port}\n")
    cluster.apply(route("traced", "models", model_rules({"traced": "llama"})))
    yield file
    address.unlink()
    cluster.apply(route("traced", "models", model_rules({"traced-no-more": "llama"})))
    server.stop(None).wait()


def spans(file):
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [span for span in found if span["trace"] == TRACE]


@pytest.mark.usefixtures("models")
def test_a_request_is_one_trace_from_its_caller_to_its_engine(cluster, collector, eventually):
    def traced():
        status, _, _ = ask("traced", headers={"traceparent": f"00-{TRACE}-{CALLER}-01"})
        handed = cluster.engines.headers[-1].get("traceparent", "") if status == 200 else ""
        return handed.split("-")[2] if handed and handed.split("-")[2] != CALLER else None

    engine_parent = eventually(traced, 30.0)

    def whole():
        found = {span["id"]: span for span in spans(collector)}
        to_engine = found.get(engine_parent)
        root = found.get(to_engine["parent"]) if to_engine else None
        if root is None:
            return None
        calls = [
            span["attributes"]["upstream_cluster"]
            for span in found.values()
            if span["parent"] == root["id"] and "ext_proc" in span["name"]
        ]
        return (root, to_engine, calls) if len(calls) == 2 else None

    root, to_engine, calls = eventually(whole, 30.0)
    assert (root["parent"], root["name"], root["service"]) == (CALLER, "ingress", "gateway")
    assert to_engine["attributes"]["upstream_cluster"].endswith("/llama")
    assert any("picker" in name or "llama" in name for name in calls), calls
    assert root["start"] <= to_engine["start"] <= to_engine["end"] <= root["end"]
