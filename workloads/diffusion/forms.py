"""Forms of `multipart/form-data`, read strictly.

The programs of the gateway read the same form before this server does, for its model and for what
guards check (`workloads/gateway/internal/forms`). Parsers of forms disagree about many things: both
therefore accept only one plain grammar, and share its cases (`forms/testdata/cases.json` there).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_CONTENT_TYPE = re.compile(
    r"multipart/form-data;[ \t]*boundary=(?:\"([0-9A-Za-z'()+_,./:=?-]{1,70})\""
    r"|([0-9A-Za-z'()+_,./:=?-]{1,70}))",
    re.IGNORECASE | re.ASCII,
)
_DISPOSITION = re.compile(
    r'form-data;[ \t]*name="([A-Za-z0-9_\[\]]{1,64})"'
    r'(?:;[ \t]*filename="([^"\\\x00-\x1f\x7f]{0,255})")?',
    re.IGNORECASE | re.ASCII,
)
_TEXT_TYPE = re.compile(r'text/plain(?:;[ \t]*charset="?utf-8"?)?', re.IGNORECASE | re.ASCII)
_HEADERS = ("content-disposition", "content-length", "content-transfer-encoding", "content-type")
_MOST_PARTS = 64
_LONGEST_HEAD = 1024
"""Bytes of the headers of a part."""
_LONGEST_TEXT = 131_072
"""Bytes of a text: a prompt of 32,000 characters fits."""


class FormError(ValueError):
    """A form that is not of the grammar; `field` is the part, if it has a name."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Part:
    """A part of a form."""

    name: str
    content: bytes
    is_file: bool


def boundary_of(content_types: Sequence[str]) -> str:
    """Return the boundary of a form.

    Raises:
        FormError: The headers are not one Content-Type of a form.
    """
    found = _CONTENT_TYPE.fullmatch(content_types[0]) if len(content_types) == 1 else None
    if found is None:
        raise FormError(
            "content-type must be multipart/form-data with a boundary, and nothing else"
        )
    return found[1] or found[2]


def is_form(content_types: Sequence[str]) -> bool:
    """Return whether a request says that its body is a form, well or badly."""
    return any(each.strip().lower().startswith("multipart/") for each in content_types)


def read(body: bytes, boundary: str) -> list[Part]:
    """Return the parts of a form, in order.

    Raises:
        FormError: The body is not of the grammar.
    """
    mark = b"--" + boundary.encode()
    if not body.startswith(mark + b"\r\n"):
        raise FormError("the body must begin with the boundary of its content-type")
    delimiter = b"\r\n" + mark
    at = len(mark) + 2
    found: list[Part] = []
    while True:
        if len(found) == _MOST_PARTS:
            raise FormError(f"the form must have at most {_MOST_PARTS} parts")
        end = body.find(delimiter, at)
        if end < 0:
            raise FormError("the form must end with its boundary")
        found.append(_part(body[at:end]))
        at = end + len(delimiter)
        if body[at : at + 2] == b"--":
            if body[at + 2 :] not in (b"", b"\r\n"):
                raise FormError("nothing must follow the form")
            return found
        if body[at : at + 2] != b"\r\n":
            raise FormError("a boundary must be a line of its own")
        at += 2


def _part(raw: bytes) -> Part:
    """Return a part.

    Raises:
        FormError: It is not of the grammar.
    """
    head, blank, content = raw.partition(b"\r\n\r\n")
    if not blank or len(head) > _LONGEST_HEAD:
        raise FormError(
            f"a part must have headers of at most {_LONGEST_HEAD} bytes, then a blank line"
        )
    headers: dict[str, str] = {}
    for line in head.split(b"\r\n"):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise FormError("the headers of a part must be UTF-8") from None
        name, colon, value = text.partition(":")
        name = name.lower()
        if not colon or name not in _HEADERS or name in headers:
            raise FormError(f"the headers of a part must be {', '.join(_HEADERS)}, each once")
        headers[name] = value.strip(" \t")
    matched = _DISPOSITION.fullmatch(headers.get("content-disposition", ""))
    if matched is None:
        rule = 'form-data; name="…", with filename="…" for a file'
        raise FormError(f"content-disposition of a part must be {rule}")
    field, is_file = matched[1], matched[2] is not None
    if headers.get("content-transfer-encoding", "binary").lower() not in ("7bit", "8bit", "binary"):
        raise FormError("content-transfer-encoding must be binary", field)
    if not is_file:
        _check_text(field, headers, content)
    return Part(field, content, is_file)


def _check_text(field: str, headers: dict[str, str], content: bytes) -> None:
    """Reject what is no plain text.

    Raises:
        FormError: The part is no text in UTF-8.
    """
    if _TEXT_TYPE.fullmatch(headers.get("content-type", "text/plain")) is None:
        raise FormError("content-type of a text must be text/plain in UTF-8", field)
    if len(content) > _LONGEST_TEXT:
        raise FormError(f"must have at most {_LONGEST_TEXT} bytes", field)
    try:
        content.decode()
    except UnicodeDecodeError:
        raise FormError("must be UTF-8", field) from None
