"""Reading and writing of Envoy external processing messages, for stand-ins that are called."""

from typing import Any, Final

from twin.wire.ext_proc import Response

_PIECE: Final = 60_000
"""Maximum bytes of a body in one message; the load balancer accepts 128 KB."""


def headers_of(part: Any) -> dict[str, str]:
    """Return headers by name."""
    return {entry.key: entry.raw_value.decode() for entry in part.headers.headers}


def metadata_of(request: Any) -> dict[str, str]:
    """Return the metadata of the calling extension."""
    found: dict[str, str] = {}
    for entry in request.metadata_context.filter_metadata:
        found |= {key: str(value) for key, value in dict(entry.value).items()}
    return found


def go_on(event: str, *, drops_length: bool = False) -> Any:
    """Return the response that lets headers or trailers pass."""
    answer = Response()
    part = getattr(answer, event)
    part.SetInParent()
    if event.endswith("headers"):
        part.response.SetInParent()
        if drops_length:
            part.response.header_mutation.remove_headers.append("content-length")
    return answer


def body_of(event: str, body: bytes, *, end: bool) -> list[Any]:
    """Return the responses that pass a body on, in chunks."""
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
    """Return an immediate response, which ends the request."""
    answer = Response()
    answer.immediate_response.status.code = code
    answer.immediate_response.body = body
    option = answer.immediate_response.headers.set_headers.add(append_action=2)
    option.header.key, option.header.raw_value = "content-type", b"application/json"
    return answer
