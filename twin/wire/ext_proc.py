"""Messages of Envoy's external processing, built at run time by their field numbers.

The numbers are those of envoy/service/ext_proc/v3/external_processor.proto; fields that
are not used here are omitted, and protobuf skips them.
"""

from typing import Any, Final, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
_TYPES: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {"string": 9, "bytes": 12, "bool": 8, "int32": 5}
_PACKAGE: Final = "twin.ext_proc"
_MESSAGES: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "HeaderValue": {"key": (1, "string"), "raw_value": (3, "bytes")},
    "HeaderMap": {"headers": (1, "*HeaderValue")},
    "HttpHeaders": {"headers": (1, "HeaderMap"), "end_of_stream": (3, "bool")},
    "HttpBody": {"body": (1, "bytes"), "end_of_stream": (2, "bool")},
    "HttpTrailers": {"trailers": (1, "HeaderMap")},
    "MetadataEntry": {"key": (1, "string"), "value": (2, "google.protobuf.Struct")},
    "Metadata": {"filter_metadata": (1, "*MetadataEntry")},
    "ProcessingRequest": {
        "request_headers": (2, "HttpHeaders"),
        "response_headers": (3, "HttpHeaders"),
        "request_body": (4, "HttpBody"),
        "response_body": (5, "HttpBody"),
        "request_trailers": (6, "HttpTrailers"),
        "response_trailers": (7, "HttpTrailers"),
        "metadata_context": (8, "Metadata"),
    },
    "HeaderValueOption": {"header": (1, "HeaderValue"), "append_action": (3, "int32")},
    "HeaderMutation": {"set_headers": (1, "*HeaderValueOption"), "remove_headers": (2, "*string")},
    "StreamedBody": {"body": (1, "bytes"), "end_of_stream": (2, "bool")},
    "BodyMutation": {"body": (1, "bytes"), "streamed_response": (3, "StreamedBody")},
    "CommonResponse": {
        "header_mutation": (2, "HeaderMutation"),
        "body_mutation": (3, "BodyMutation"),
        "clear_route_cache": (5, "bool"),
    },
    "CommonAnswer": {"response": (1, "CommonResponse")},
    "TrailersAnswer": {"header_mutation": (1, "HeaderMutation")},
    "HttpStatus": {"code": (1, "int32")},
    "ImmediateResponse": {
        "status": (1, "HttpStatus"),
        "headers": (2, "HeaderMutation"),
        "body": (3, "bytes"),
    },
    "ProcessingResponse": {
        "request_headers": (1, "CommonAnswer"),
        "response_headers": (2, "CommonAnswer"),
        "request_body": (3, "CommonAnswer"),
        "response_body": (4, "CommonAnswer"),
        "request_trailers": (5, "TrailersAnswer"),
        "response_trailers": (6, "TrailersAnswer"),
        "immediate_response": (7, "ImmediateResponse"),
    },
}


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="twin/ext_proc.proto",
        package=_PACKAGE,
        syntax="proto2",  # else an absent and an empty message would look alike
        dependency=[struct_pb2.DESCRIPTOR.name],
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, declared) in fields.items():
            added = message.field.add(name=field, number=number)
            repeated = declared.startswith("*")
            added.label = _TYPES.LABEL_REPEATED if repeated else _TYPES.LABEL_OPTIONAL
            kind = declared.removeprefix("*")
            if kind in _SCALARS:
                added.type = cast("Any", _SCALARS[kind])
                continue
            added.type = _TYPES.TYPE_MESSAGE
            added.type_name = f".{kind}" if "." in kind else f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.Default()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _MESSAGES)
    return {each.name: message_factory.GetMessageClass(each) for each in found}


_CLASSES: Final = _classes()
Request: Any = _CLASSES["ProcessingRequest"]
Response: Any = _CLASSES["ProcessingResponse"]


def event_of(request: Any) -> str:
    """Return the event of a message, such as `request_headers`."""
    return next(str(f.name) for f, _ in request.ListFields() if f.name != "metadata_context")
