"""Messages of Envoy's external processing, built at run time by their field numbers.

The numbers are those of envoy/service/ext_proc/v3/external_processor.proto; fields that the
stand-in does not use are left out, and protobuf skips them.
"""

from typing import Any, Final, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
_TYPES: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {"string": 9, "bytes": 12, "bool": 8, "int32": 5}
_PACKAGE: Final = "twin.armor.ext_proc"
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
    "BodyMutation": {"streamed_response": (3, "StreamedBody")},
    "CommonResponse": {
        "header_mutation": (2, "HeaderMutation"),
        "body_mutation": (3, "BodyMutation"),
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
        name="twin/armor/ext_proc.proto",
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
_PIECE: Final = 60_000
"""Bytes of a body in one message: the load balancer takes 128 KB."""


def event_of(request: Any) -> str:
    """Return which event a message is about, such as `request_headers`."""
    return next(str(f.name) for f, _ in request.ListFields() if f.name != "metadata_context")


def headers_of(part: Any) -> dict[str, str]:
    """Return headers by name."""
    return {entry.key: entry.raw_value.decode() for entry in part.headers.headers}


def metadata_of(request: Any) -> dict[str, str]:
    """Return the metadata of the extension that calls."""
    found: dict[str, str] = {}
    for entry in request.metadata_context.filter_metadata:
        found |= {key: str(value) for key, value in dict(entry.value).items()}
    return found


def go_on(event: str, *, drops_length: bool = False) -> Any:
    """Return the answer that lets headers or trailers pass."""
    answer = Response()
    part = getattr(answer, event)
    part.SetInParent()
    if event.endswith("headers"):
        part.response.SetInParent()
        if drops_length:
            part.response.header_mutation.remove_headers.append("content-length")
    return answer


def body_of(event: str, body: bytes, *, end: bool) -> list[Any]:
    """Return the answers that send a body on, in pieces."""
    pieces = [body[at : at + _PIECE] for at in range(0, len(body), _PIECE)] or [b""]
    answers: list[Any] = []
    for at, piece in enumerate(pieces):
        answer = Response()
        streamed = getattr(answer, event).response.body_mutation.streamed_response
        streamed.body = piece
        streamed.end_of_stream = end and at == len(pieces) - 1
        answers.append(answer)
    return answers


def refuse(code: int, body: bytes) -> Any:
    """Return an answer to the client that ends the request."""
    answer = Response()
    answer.immediate_response.status.code = code
    answer.immediate_response.body = body
    option = answer.immediate_response.headers.set_headers.add(append_action=2)
    option.header.key, option.header.raw_value = "content-type", b"application/json"
    return answer
