"""The access log of a gateway: one JSON object for each request, without bodies or credentials."""

from typing import Final

from twin.cluster.gateway.envoy.extensions import processor_filters
from twin.cluster.gateway.envoy.messages import (
    ENDPOINT_HEADER,
    MODEL_HEADER,
    PICKER_FILTER,
    EnvoyJson,
)
from twin.cluster.gateway.translation.model import GatewayModel

MODEL: Final = f"%REQ({MODEL_HEADER})%"
PICKER: Final = "picker"
"""Name of the endpoint picker among the processors."""
_FIELDS: Final[EnvoyJson] = {
    "time": "%START_TIME%",
    "method": "%REQ(:METHOD)%",
    "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
    "host": "%REQ(:AUTHORITY)%",
    "model": MODEL,
    "pool": "%UPSTREAM_CLUSTER%",
    "endpoint": "%UPSTREAM_HOST%",
    "picked": f"%REQ({ENDPOINT_HEADER})%",
    "code": "%RESPONSE_CODE%",
    "flags": "%RESPONSE_FLAGS%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "duration_ms": "%DURATION%",
    "first_byte_ms": "%RESPONSE_DURATION%",
    "bytes_in": "%BYTES_RECEIVED%",
    "bytes_out": "%BYTES_SENT%",
    "route": "%ROUTE_NAME%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "traceparent": "%REQ(TRACEPARENT)%",
}
_WAITS: Final = {
    "request_headers_us": "request_header_latency_us",
    "request_body_us": "request_body_total_latency_us",
    "response_headers_us": "response_header_latency_us",
}
"""Field of `ExtProcLoggingInfo` by field of the log (Envoy, filters/http/ext_proc/ext_proc.cc)."""


def fields_of(model: GatewayModel) -> EnvoyJson:
    """Return the fields of an access log line, as Envoy format strings.

    `processors` has the microseconds until each processor answered a part of the request. Headers
    and body are sent to it at once, so the two times overlap. Google's load balancers log the same
    as `serviceExtensionInfo` (docs.cloud.google.com, *Logging and monitoring for Cloud Load
    Balancing callouts*).
    """
    named = [(item.name, name) for name, item in processor_filters(model)]
    processors = {
        key: {field: f"%FILTER_STATE({name}:FIELD:{wait})%" for field, wait in _WAITS.items()}
        for key, name in [*named, (PICKER, PICKER_FILTER)]
    }
    return {**_FIELDS, "processors": processors}
