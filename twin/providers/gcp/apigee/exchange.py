"""A request and its response, as a load balancer sends them to Apigee's extension processor."""

import json
from collections.abc import Iterator
from typing import Any, Final

from twin.host.paths import TwinPaths
from twin.providers.gcp.apigee.decision import KEY_HEADER, Counters, Fault, Grant, decide
from twin.providers.gcp.apigee.organization import TOKENS, app_with, proxy_named
from twin.wire import ext_proc
from twin.wire import ext_proc_messages as messages
from twin.wire.property_values import CloudError, get_path
from twin.world.store import Store

PROXY_KEY: Final = "apigee-extension-processor"
"""Key of the extension's metadata that names the proxy."""
_LONGEST: Final = 4 * 1024 * 1024
"""Longest answer whose tokens are counted, in bytes."""
_OK: Final = "200"


class Exchange:
    """The state of one request."""

    def __init__(self, paths: TwinPaths, store: Store, counters: Counters) -> None:
        self._paths = paths
        self._store = store
        self._counters = counters
        self._grant: Grant | None = None
        self._counts_tokens = False
        self._answer = b""

    def answers(self, request: Any) -> Iterator[Any]:
        """Yield the responses to a message.

        Raises:
            CloudError: The organization has no proxy with the name in the extension's metadata.
        """
        part = getattr(request, event := ext_proc.event_of(request))
        if event == "request_headers":
            yield self._on_request(event, messages.metadata_of(request), messages.headers_of(part))
        elif event.endswith("headers"):
            self._on_response(messages.headers_of(part))
            yield messages.go_on(event)
        elif event.endswith("trailers"):
            if event == "response_trailers":
                self._count()
            yield messages.go_on(event)
        else:
            if event == "response_body":
                self._look_at(part.body, ends=part.end_of_stream)
            yield from messages.body_of(event, part.body, end=part.end_of_stream)

    def _on_request(self, event: str, metadata: dict[str, str], headers: dict[str, str]) -> Any:
        name = metadata.get(PROXY_KEY, "")
        proxy = proxy_named(self._paths, name)
        if proxy is None:
            raise CloudError(404, f"Apigee has no API proxy {name}", "NOT_FOUND")
        found = decide(
            proxy,
            lambda key: app_with(self._store, proxy.project, key),
            self._counters,
            headers.get(":method", ""),
            headers.get(":path", "").partition("?")[0],
            headers.get(KEY_HEADER),
        )
        if isinstance(found, Fault):
            return messages.refuse(found.status, found.body)
        self._grant = found
        self._counts_tokens = proxy.counts == TOKENS
        return messages.go_on(event)

    def _on_response(self, headers: dict[str, str]) -> None:
        is_json = headers.get("content-type", "").startswith("application/json")
        self._counts_tokens &= is_json and headers.get(":status") == _OK

    def _look_at(self, piece: bytes, *, ends: bool) -> None:
        if not self._counts_tokens:
            return
        self._answer += piece
        if len(self._answer) > _LONGEST:
            self._counts_tokens = False
        elif ends:
            self._count()

    def _count(self) -> None:
        """Count the tokens of a complete answer (rule apigee.proxy)."""
        if self._grant is None or not self._counts_tokens:
            return
        self._counts_tokens = False
        try:
            used = get_path(json.loads(self._answer), "usage.total_tokens")
        except ValueError:
            return
        if isinstance(used, int):
            self._counters.add(self._grant, used)
