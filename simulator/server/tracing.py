"""vLLM's span for each request, as in `vllm.tracing` and its output processor."""

import os
import queue
import random
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.engine.engine import Engine
from simulator.engine.logs import TRACEPARENT
from simulator.engine.request import Request
from simulator.server.bodies.asks import CompletionRequest

_SECONDS = 5.0
_MOST_WAITING = 10_000


@dataclass(frozen=True)
class _Followed:
    trace: str
    parent: str
    max_tokens: int
    model: str


class Tracer:
    """The tracer of an engine without `--otlp-traces-endpoint`, which traces nothing."""

    def follow(self, request: Request, headers: Mapping[str, str], ask: CompletionRequest) -> None:
        """Record the trace of a request."""

    def tell(self, request: Request) -> None:
        """Send the span of a finished request."""


class SpanSender(Tracer):
    """A tracer that sends spans over OTLP; without a collector, only spans are lost."""

    def __init__(self, engine: Engine, address: str, service: str, ratio: float) -> None:
        self._engine = engine
        self._service = service
        self._ratio = ratio
        self._followed: dict[Request, _Followed] = {}
        self._waiting: queue.Queue[dict[str, Any]] = queue.Queue(_MOST_WAITING)
        threading.Thread(target=self._send, args=(address,), daemon=True, name="spans").start()

    def follow(self, request: Request, headers: Mapping[str, str], ask: CompletionRequest) -> None:
        """Record the trace in `traceparent`; start a trace for a share of other requests."""
        given = next((value for key, value in headers.items() if key.lower() == "traceparent"), "")
        match = TRACEPARENT.match(given)
        if match is not None and not int(match.group(3), 16) & 1:
            return
        if match is None and random.random() >= self._ratio:  # noqa: S311 - a sample, no secret
            return
        trace, parent = match.group(1, 2) if match else (secrets.token_hex(16), "")
        self._followed[request] = _Followed(trace, parent, ask.max_tokens, ask.model)

    def tell(self, request: Request) -> None:
        """Send the span of a finished request, if it is traced."""
        followed = self._followed.pop(request, None)
        if followed is None or self._waiting.full():
            return
        clock = self._engine.clock
        speed = float(getattr(clock, "speed", 1.0))
        ended = time.time_ns()
        length = max(0.0, clock.now() - request.arrival) / speed
        self._waiting.put_nowait(
            {
                "trace": followed.trace,
                "parent": followed.parent,
                "start": ended - int(length * 1e9),
                "end": ended,
                "attributes": span_attributes(request, followed.model, followed.max_tokens, length),
            }
        )

    def _send(self, address: str) -> None:
        import grpc  # noqa: PLC0415 - an engine without traces does not load it
        from opentelemetry.proto.collector.trace.v1 import (  # noqa: PLC0415
            trace_service_pb2_grpc as services,
        )

        stub: Any = services.TraceServiceStub(grpc.insecure_channel(address))
        while True:
            spans = [self._waiting.get()]
            while not self._waiting.empty():
                spans.append(self._waiting.get_nowait())
            try:
                stub.Export(export_request(spans, self._service), timeout=_SECONDS)
            except grpc.RpcError:
                continue


def span_attributes(
    request: Request, model: str, max_tokens: int, length: float
) -> dict[str, str | int | float]:
    """Return the attributes of vLLM's span, with times in seconds and without prompts."""
    scheduled = request.first_scheduled or request.arrival
    first = request.first_token or scheduled
    last = request.last_token or first
    return {
        "gen_ai.latency.e2e": length,
        "gen_ai.latency.time_in_model_decode": last - first,
        "gen_ai.latency.time_in_model_inference": last - scheduled,
        "gen_ai.latency.time_in_model_prefill": first - scheduled,
        "gen_ai.latency.time_in_queue": scheduled - request.arrival,
        "gen_ai.latency.time_to_first_token": first - request.arrival,
        "gen_ai.request.id": request.id,
        "gen_ai.request.max_tokens": max_tokens,
        "gen_ai.response.model": model,
        "gen_ai.usage.completion_tokens": request.generated,
        "gen_ai.usage.prompt_tokens": len(request.prompt),
    }


def export_request(spans: list[dict[str, Any]], service: str) -> Any:
    """Return the OTLP request with some spans."""
    from opentelemetry.proto.collector.trace.v1 import (  # noqa: PLC0415
        trace_service_pb2 as messages,
    )
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue  # noqa: PLC0415
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource  # noqa: PLC0415
    from opentelemetry.proto.trace.v1 import trace_pb2 as trace  # noqa: PLC0415

    def value(item: str | float) -> Any:
        if isinstance(item, str):
            return AnyValue(string_value=item)
        return AnyValue(int_value=item) if isinstance(item, int) else AnyValue(double_value=item)

    made = [
        trace.Span(
            trace_id=bytes.fromhex(span["trace"]),
            span_id=secrets.token_bytes(8),
            parent_span_id=bytes.fromhex(span["parent"]),
            name="llm_request",
            kind=trace.Span.SPAN_KIND_SERVER,
            start_time_unix_nano=span["start"],
            end_time_unix_nano=span["end"],
            attributes=[KeyValue(key=k, value=value(v)) for k, v in span["attributes"].items()],
        )
        for span in spans
    ]
    about = Resource(attributes=[KeyValue(key="service.name", value=value(service))])
    scoped = trace.ScopeSpans(spans=made)
    scoped.scope.name = "vllm.llm_engine"
    return messages.ExportTraceServiceRequest(
        resource_spans=[trace.ResourceSpans(resource=about, scope_spans=[scoped])]
    )


def tracer_of(engine: Engine) -> Tracer:
    """Return the tracer for the flags and the environment of an engine."""
    deployment = engine.deployment
    collector = deployment.surroundings.collector
    if not deployment.flags.otlp_traces_endpoint or not collector:
        return Tracer()
    service = os.environ.get("OTEL_SERVICE_NAME", "vllm")
    ratio = float(os.environ.get("OTEL_TRACES_SAMPLER_ARG", "1"))
    return SpanSender(engine, collector, service, ratio)
