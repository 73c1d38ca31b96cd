"""Typed access to one API server: JSON objects by path, server-side apply, watches.

The official client handles kubeconfigs, credential plugins, TLS and connection pools. Only this
module uses it, because it has no type annotations.
"""

import importlib
import json
import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode


class Later:
    """A placeholder for a module, which is loaded on the first access to a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


JsonObject = dict[str, Any]
_client: Any = Later("kubernetes.client")
_config: Any = Later("kubernetes.config")
_urllib3: Any = Later("urllib3")

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 60.0
_WATCH_SECONDS = 240
_TICK_SECONDS = 2.0


class KubeError(Exception):
    """An error response of the API server, or no response (`status` 0)."""

    def __init__(self, status: int, reason: str, message: str, details: JsonObject) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status code; 0 if the server could not be reached."""
        self.reason = reason
        """Kubernetes' machine-readable reason, such as `NotFound` or `Conflict`."""
        self.message = message
        self.details = details


def _error(status: int, text: str) -> KubeError:
    try:
        body: JsonObject = json.loads(text)
    except ValueError:
        return KubeError(status, "", text.strip() or f"HTTP {status}", {})
    return KubeError(
        status,
        str(body.get("reason", "")),
        str(body.get("message", text)),
        body.get("details") or {},
    )


class Kube:
    """One API server, as the user of a kubeconfig."""

    def __init__(self, kubeconfig: Path | JsonObject, pool_size: int = 32) -> None:
        """Read a kubeconfig: a file, or its content as a mapping.

        Raises:
            KubeError: the kubeconfig is unusable or its credential plugin failed.
        """
        configuration = _client.Configuration()
        configuration.connection_pool_maxsize = pool_size
        try:
            if isinstance(kubeconfig, Path):
                _config.load_kube_config(str(kubeconfig), client_configuration=configuration)
            else:
                _config.load_kube_config_from_dict(kubeconfig, client_configuration=configuration)
        except (_config.ConfigException, OSError) as error:
            raise KubeError(0, "BadKubeconfig", f"kubeconfig: {error}", {}) from error
        configuration.proxy = None
        configuration.retries = False
        self.kubeconfig: Path | JsonObject = kubeconfig
        self.server: str = configuration.host.rstrip("/")
        self._api: Any = _client.ApiClient(configuration)
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the idle connections."""
        self._api.rest_client.pool_manager.clear()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        timeout: float = _READ_SECONDS,
        **query: Any,
    ) -> JsonObject:
        """Send a request and return the JSON response.

        Raises:
            KubeError: the server returned an error, or could not be reached.
        """
        response = self._send(
            method, path, body=body, content_type=content_type, timeout=timeout, query=query
        )
        text: str = response.data.decode()
        if response.status >= 400:
            raise _error(response.status, text)
        return json.loads(text) if text.startswith("{") else {"text": text}

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any],
        timeout: float,
        body: Any = None,
        content_type: str = "application/json",
        stream: bool = False,
    ) -> Any:
        query = {key: value for key, value in query.items() if value is not None}
        url = self.server + path
        if query:
            url += ("&" if "?" in path else "?") + urlencode(query)
        headers = {"Accept": "application/json", "Content-Type": content_type}
        self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        try:
            return self._api.rest_client.pool_manager.request(
                method,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=_urllib3.Timeout(connect=_CONNECT_SECONDS, read=timeout),
                preload_content=not stream,
                retries=_urllib3.Retry(connect=1, read=0, redirect=0, other=0, status=0),
            )
        except _urllib3.exceptions.HTTPError as error:
            raise KubeError(0, "Unreachable", f"{self.server}: {error}", {}) from error

    def get(self, path: str, **query: Any) -> JsonObject:
        """Read one object or list."""
        return self.request("GET", path, **query)

    def post(self, path: str, body: JsonObject, **query: Any) -> JsonObject:
        """Create an object."""
        return self.request("POST", path, body, **query)

    def put(self, path: str, body: JsonObject, **query: Any) -> JsonObject:
        """Replace an object."""
        return self.request("PUT", path, body, **query)

    def delete(self, path: str, body: JsonObject | None = None, **query: Any) -> JsonObject:
        """Delete an object; `body` can contain DeleteOptions."""
        return self.request("DELETE", path, body, **query)

    def patch(
        self,
        path: str,
        body: Any,
        type: Literal["merge", "json", "strategic", "apply"] = "merge",  # noqa: A002
        **query: Any,
    ) -> JsonObject:
        """Patch an object."""
        return self.request("PATCH", path, body, content_type=_PATCH_TYPES[type], **query)

    def apply(
        self,
        obj: JsonObject,
        *,
        manager: str,
        force: bool = True,
        dry_run: bool = False,
        strict: bool = True,
        subresource: str | None = None,
    ) -> JsonObject:
        """Apply an object server-side and return the result.

        Args:
            obj: object with `apiVersion`, `kind`, `metadata.name` and, if namespaced, the
                namespace.
            manager: field manager.
            force: whether to take over fields of other managers.
            dry_run: whether to validate and default without storing.
            strict: whether to reject unknown and duplicate fields.
            subresource: subresource, such as `status`.
        """
        path = self.path_of(obj) + (f"/{subresource}" if subresource else "")
        return self.patch(
            path,
            obj,
            "apply",
            fieldManager=manager,
            force=str(force).lower(),
            fieldValidation="Strict" if strict else None,
            dryRun="All" if dry_run else None,
        )

    def resource(self, api_version: str, kind: str) -> tuple[str, bool]:
        """Return (plural, namespaced) of a kind, from one request to the server.

        Raises:
            KubeError: status 404, reason `NoSuchKind`, if the server does not know the kind.
        """
        key = (api_version, kind)
        if key not in self._resources:
            found = self._discover(api_version)
            with self._lock:
                self._resources.update(found)
        if key not in self._resources:
            raise KubeError(404, "NoSuchKind", f"the server has no kind {api_version} {kind}", {})
        return self._resources[key]

    def _discover(self, api_version: str) -> dict[tuple[str, str], tuple[str, bool]]:
        try:
            listed = self.get(self._root(api_version))["resources"]
        except KubeError as error:
            if error.status == 404:
                return {}
            raise
        return {
            (api_version, item["kind"]): (item["name"], item["namespaced"])
            for item in listed
            if "/" not in item["name"]
        }

    @staticmethod
    def _root(api_version: str) -> str:
        return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"

    def path_of(
        self,
        obj: JsonObject | str,
        kind: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
    ) -> str:
        """Return the path of an object, or of a kind's collection without a name.

        Args:
            obj: an object, or an API version such as `apps/v1` with the other arguments.
            kind: kind, such as `Deployment`.
            namespace: namespace; `default` for an object of a namespaced kind without one.
            name: name of the object.
        """
        if isinstance(obj, dict):
            metadata: JsonObject = obj.get("metadata", {})
            return self.path_of(
                obj["apiVersion"],
                obj["kind"],
                metadata.get("namespace", "default"),
                metadata.get("name"),
            )
        plural, namespaced = self.resource(obj, kind or "")
        path = self._root(obj)
        if namespaced and namespace:
            path += f"/namespaces/{namespace}"
        return f"{path}/{plural}" + (f"/{name}" if name else "")

    def list(
        self, path: str, label_selector: str | None = None, field_selector: str | None = None
    ) -> list[JsonObject]:
        """Return the items of a collection."""
        answer = self.get(path, labelSelector=label_selector, fieldSelector=field_selector)
        return list(answer["items"])

    def watch(
        self, path: str, stop: threading.Event, label_selector: str | None = None
    ) -> Iterator[tuple[str, JsonObject]]:
        """Yield (type, object) of a collection until `stop` is set.

        Existing objects come first as `ADDED`. After an error, the collection is listed again, and
        objects deleted in the meantime come as `DELETED`. If the server does not know the kind yet,
        the method waits for it. A `("SYNCED", {})` follows each listing, and a `("TICK", {})` about
        every two seconds without events, so that a caller can check `stop` or the clock.
        """
        known: dict[str, JsonObject] = {}
        while not stop.is_set():
            try:
                listed = self.get(path, labelSelector=label_selector)
            except (KubeError, ValueError):  # no answer, a refusal, or half an answer
                yield "TICK", {}
                stop.wait(1.0)
                continue
            kind = str(listed.get("kind", "List")).removesuffix("List")
            current: dict[str, JsonObject] = {}
            for item in listed["items"]:
                item.setdefault("kind", kind)
                item.setdefault("apiVersion", listed["apiVersion"])
                current[item["metadata"]["uid"]] = item
            gone = [item for uid, item in known.items() if uid not in current]
            known = current
            for item in gone:
                yield "DELETED", item
            for item in list(known.values()):
                yield "ADDED", item
            yield "SYNCED", {}
            version = listed["metadata"]["resourceVersion"]
            yield from self._stream(path, version, stop, label_selector, known)

    def _stream(
        self,
        path: str,
        version: str,
        stop: threading.Event,
        label_selector: str | None,
        known: dict[str, JsonObject],
    ) -> Iterator[tuple[str, JsonObject]]:
        query = {
            "watch": "1",
            "resourceVersion": version,
            "labelSelector": label_selector,
            "timeoutSeconds": _WATCH_SECONDS,
            "allowWatchBookmarks": "true",
        }
        try:
            response = self._send(
                "GET", path, query=query, timeout=_WATCH_SECONDS + 30, stream=True
            )
        except KubeError:
            stop.wait(0.5)
            return
        if response.status >= 400:
            response.close()
            stop.wait(0.5)
            return
        for line in _lines_until(response, stop):
            if line is None:
                yield "TICK", {}
                continue
            try:
                event: JsonObject = json.loads(line)
            except ValueError:  # the server went away in the middle of a line
                return
            if event["type"] == "ERROR":
                return
            if event["type"] == "BOOKMARK":
                continue
            item: JsonObject = event["object"]
            if event["type"] == "DELETED":
                known.pop(item["metadata"]["uid"], None)
            else:
                known[item["metadata"]["uid"]] = item
            yield event["type"], item


def _lines_until(response: Any, stop: threading.Event) -> Iterator[bytes | None]:
    """Yield the lines of a streamed response, and None about every two seconds without one.

    A separate thread reads, because a read timeout would break the connection.
    """
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def pump() -> None:
        buffer = b""
        try:
            while chunk := response.read1(65536):
                *complete, buffer = (buffer + chunk).split(b"\n")
                for line in complete:
                    if line:
                        lines.put(line)
        except (_urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError):
            pass  # the server went away, or the reader below hung up: the caller lists again
        finally:
            lines.put(None)

    threading.Thread(target=pump, daemon=True, name="watch").start()
    try:
        while not stop.is_set():
            try:
                line = lines.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                yield None
                continue
            if line is None:
                return
            yield line
    finally:
        with suppress(RuntimeError):  # the answer ended by itself meanwhile
            response.shutdown()
        response.close()
