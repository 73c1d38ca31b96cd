"""Permissions that requests to Cloud Storage's JSON API need (rule cloud.pod-access)."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from twin.wire.property_values import CloudError

_CREATE: Final = "storage.objects.create"
_DELETE: Final = "storage.objects.delete"
_GET: Final = "storage.objects.get"
_B: Final = r"/storage/v1/b/(?P<bucket>[^/]+)"
_OF_PROJECT: Final = {"GET": "storage.buckets.list", "POST": "storage.buckets.create"}
_OF_BUCKET: Final = {
    "DELETE": "storage.buckets.delete",
    "GET": "storage.buckets.get",
    "PATCH": "storage.buckets.update",
    "PUT": "storage.buckets.update",
}
_OF_OBJECT: Final = {
    "DELETE": _DELETE,
    "GET": _GET,
    "PATCH": "storage.objects.update",
    "PUT": "storage.objects.update",
}
_BUCKET: Final = re.compile(_B)
_OBJECTS: Final = re.compile(rf"{_B}/o")
_OBJECT: Final = re.compile(rf"(?:/download)?{_B}/o/(?P<object>[^/]+)")
_UPLOAD: Final = re.compile(rf"/upload{_B}/o")
_COMPOSE: Final = re.compile(rf"{_B}/o/(?P<object>[^/]+)/compose")
_COPY: Final = re.compile(
    rf"{_B}/o/(?P<source>[^/]+)/(?:rewriteTo|copyTo)/b/(?P<target>[^/]+)/o/(?P<object>[^/]+)"
)


@dataclass(frozen=True)
class Request:
    """A request without its caller."""

    method: str
    path: str
    """Path with the query."""

    @property
    def is_of_content(self) -> bool:
        """Whether it reads the content of an object, not a description."""
        split = urlsplit(self.path)
        media = parse_qs(split.query).get("alt") == ["media"]
        return self.method == "GET" and (media or split.path.startswith("/download/"))


@dataclass(frozen=True)
class _Write:
    bucket: str
    name: str | None
    """Name of the object that it creates; None if only the body names it."""
    is_new: bool
    """Whether its precondition is that the object does not exist."""


def check(
    request: Request,
    may: Callable[[str, str], bool],
    has_object: Callable[[str, str], bool],
    caller: str,
) -> None:
    """Reject a request for which the caller has no permission.

    Args:
        request: The request.
        may: Returns whether the caller has a permission on a bucket.
        has_object: Returns whether a bucket has an object.
        caller: Name of the caller in errors.

    Raises:
        CloudError: A permission is missing, or the method is unknown.
    """
    for permission, bucket in _needed(request):
        if not may(permission, bucket):
            raise _denied(caller, permission)
    write = _write_of(request)
    if write is None or write.is_new or may(_DELETE, write.bucket):
        return
    if write.name is None or has_object(write.bucket, write.name):
        raise _denied(caller, _DELETE)  # to replace an object is to delete it


def _needed(request: Request) -> Iterator[tuple[str, str]]:
    """Yield the permissions that a request needs in any case, each with its bucket.

    Raises:
        CloudError: The method is unknown.
    """
    split = urlsplit(request.path)
    method = "GET" if request.method == "HEAD" else request.method
    if found := _COPY.fullmatch(split.path):
        yield _GET, unquote(found["bucket"])
        yield _CREATE, unquote(found["target"])
    elif found := _COMPOSE.fullmatch(split.path):
        yield _GET, unquote(found["bucket"])
        yield _CREATE, unquote(found["bucket"])
    elif found := _UPLOAD.fullmatch(split.path):
        # the URL of an upload in parts is its permission: only who opened it knows it
        if "upload_id" not in parse_qs(split.query):
            yield _CREATE, unquote(found["bucket"])
    elif found := _OBJECT.fullmatch(split.path):
        yield _known(_OF_OBJECT, method, request), unquote(found["bucket"])
    elif found := _OBJECTS.fullmatch(split.path):
        yield _known({"GET": "storage.objects.list"}, method, request), unquote(found["bucket"])
    elif found := _BUCKET.fullmatch(split.path):
        yield _known(_OF_BUCKET, method, request), unquote(found["bucket"])
    elif split.path == "/storage/v1/b":
        yield _known(_OF_PROJECT, method, request), ""
    else:
        raise _unknown(request)


def _write_of(request: Request) -> _Write | None:
    split = urlsplit(request.path)
    query = parse_qs(split.query)
    is_new = query.get("ifGenerationMatch") == ["0"]
    if found := _COPY.fullmatch(split.path):
        return _Write(unquote(found["target"]), unquote(found["object"]), is_new)
    if found := _COMPOSE.fullmatch(split.path):
        return _Write(unquote(found["bucket"]), unquote(found["object"]), is_new)
    if (found := _UPLOAD.fullmatch(split.path)) and "upload_id" not in query:
        return _Write(unquote(found["bucket"]), query.get("name", [None])[0], is_new)
    return None


def _known(methods: dict[str, str], method: str, request: Request) -> str:
    if method not in methods:
        raise _unknown(request)
    return methods[method]


def _unknown(request: Request) -> CloudError:
    text = f"the twin knows no permission for {request.method} {urlsplit(request.path).path}"
    return CloudError(501, text, "notImplemented")


def _denied(caller: str, permission: str) -> CloudError:
    is_of_object = permission.startswith("storage.objects.") and not permission.endswith(".list")
    where = f"the Google Cloud Storage {'object' if is_of_object else 'bucket'}"
    if permission in _OF_PROJECT.values():
        where = "the Google Cloud project"
    what = f"Permission '{permission}' denied on resource (or it may not exist)."
    text = f"{caller} does not have {permission} access to {where}. {what}"
    return CloudError(403, text, "forbidden")
