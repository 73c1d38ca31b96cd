"""The collector that Managed OpenTelemetry runs in a cluster: OTLP in, spans in a file."""

import json
import threading
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part
from twin.host.ports import free_port
from twin.world.store import list_resources

_CLUSTER = "gcp:container/cluster:Cluster"
_SCOPE = "COLLECTION_AND_INSTRUMENTATION_COMPONENTS"
_LOOK_SECONDS = 2.0
_LARGEST_FILE = 64 * 2**20
_PLAIN = frozenset({"bool_value", "double_value", "int_value", "string_value"})


def spans_file(cluster_dir: Path) -> Path:
    """Return the file of a cluster's spans, with one JSON object per line."""
    return cluster_dir / "traces" / "spans.jsonl"


def collector_address(cluster_dir: Path) -> str:
    """Return `127.0.0.1:PORT` of a cluster's collector; empty if it has none."""
    try:
        return (cluster_dir / "traces" / "address").read_text().strip()
    except FileNotFoundError:
        return ""


def plain_spans(request: Any) -> list[dict[str, Any]]:
    """Return the spans of an OTLP request as plain objects; times in nanoseconds since 1970."""
    found: list[dict[str, Any]] = []
    for resource in request.resource_spans:
        about = _attributes(resource.resource.attributes)
        for scope in resource.scope_spans:
            found += [_plain(span, str(about.get("service.name", ""))) for span in scope.spans]
    return found


def _plain(span: Any, service: str) -> dict[str, Any]:
    return {
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "service": service,
        "name": span.name,
        "start": span.start_time_unix_nano,
        "end": span.end_time_unix_nano,
        "attributes": _attributes(span.attributes),
    }


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    # lists, maps and empty values have no direct JSON form; they are only displayed
    return getattr(value, kind) if kind in _PLAIN else str(value).strip()


class SpanFile(services.TraceServiceServicer):
    """The OTLP service; a large file is truncated."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()

    def Export(self, request: Any, context: Any) -> Any:
        """Store the spans of one request."""
        del context
        lines = "".join(json.dumps(span) + "\n" for span in plain_spans(request))
        with self._lock:
            if self._file.exists() and self._file.stat().st_size > _LARGEST_FILE:
                self._file.replace(self._file.with_suffix(".old.jsonl"))
            with self._file.open("a", encoding="utf-8") as handle:
                handle.write(lines)
        return messages.ExportTraceServiceResponse()


class Collector:
    """A collector that listens once the cluster enables Managed OpenTelemetry."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._folder = context.dir / "traces"

    def run(self, stop: threading.Event) -> None:
        """Receive spans until `stop` is set."""
        while not stop.is_set() and not self._wanted():
            stop.wait(_LOOK_SECONDS)
        if stop.is_set():
            return
        self._folder.mkdir(exist_ok=True)
        address = collector_address(self._context.dir) or f"127.0.0.1:{free_port()}"
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
        generated: Any = services  # its functions have no types
        generated.add_TraceServiceServicer_to_server(
            SpanFile(spans_file(self._context.dir)), server
        )
        server.add_insecure_port(address)
        server.start()
        (self._folder / "address").write_text(address + "\n")
        stop.wait()
        server.stop(grace=0.5)

    def _wanted(self) -> bool:
        spec = self._context.spec
        return any(
            part(record.inputs, "managedOpentelemetryConfig").get("scope") == _SCOPE
            for record in list_resources(self._context.paths, (_CLUSTER,))
            if record.inputs.get("name") == spec.name
        )
