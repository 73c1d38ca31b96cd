"""A server on 127.0.0.1 that answers like the few Google APIs that bootstrap calls.

The first part of a path is the host that was meant. It keeps what is created, refuses to create it
twice, and remembers every call.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PROJECT = "acme-inference-prod"
NUMBER = "141421356237"
_ID_PARAMETERS = (
    "cryptoKeyId",
    "keyRingId",
    "workloadIdentityPoolId",
    "workloadIdentityPoolProviderId",
)

Json = dict[str, Any]
Answer = tuple[int, Json]


class FakeGoogle:
    """The state of a project, and what was asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.services = {"serviceusage.googleapis.com", "iam.googleapis.com"}
        self.resources: dict[str, Json] = {}
        self.policies: dict[str, Json] = {}
        self.buckets: dict[str, Json] = {}
        self.refusals: dict[str, Answer] = {}
        """Answers by the start of a path, in place of the usual ones."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Where it listens, such as http://127.0.0.1:1234."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def changes(self) -> list[tuple[str, str]]:
        """The calls that changed something."""
        return [
            (method, path)
            for method, path in self.calls
            if method != "GET" and not path.endswith(":getIamPolicy")
        ]

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, query: dict[str, str], body: Json) -> Answer:
        """Return the status and the body of the answer to one call."""
        self.calls.append((method, path))
        for start, refusal in self.refusals.items():
            if path.startswith(start):
                return refusal
        host, _, rest = path.partition("/")
        if host == "storage":
            return self._storage(method, rest, body)
        if host not in self.services:
            return _refused(403, f"{host} has not been used", "SERVICE_DISABLED")
        if host == "serviceusage.googleapis.com":
            return self._service_usage(rest, body)
        if rest.endswith((":getIamPolicy", ":setIamPolicy")):
            return self._policy(path, body)
        return self._resource(method, path, query, body)

    def _service_usage(self, path: str, body: Json) -> Answer:
        if path.endswith(":batchEnable"):
            self.services |= set(body["serviceIds"])
            return 200, {"name": "operations/enable", "done": False}
        if path.startswith("v1/operations/"):
            return 200, {"name": path.removeprefix("v1/"), "done": True, "response": {}}
        if path.endswith("/services"):
            return 200, {"services": [{"config": {"name": name}} for name in self.services]}
        return 200, {"name": f"projects/{NUMBER}/services/{path.rsplit('/', 1)[1]}"}

    def _policy(self, path: str, body: Json) -> Answer:
        resource, _, verb = path.rpartition(":")
        policy = self.policies.setdefault(resource, {"etag": "1", "bindings": []})
        if verb == "getIamPolicy":
            return 200, policy
        if body["policy"]["etag"] != policy["etag"]:
            return _refused(409, "the policy was changed", "ABORTED")
        etag = str(int(policy["etag"]) + 1)
        self.policies[resource] = {**body["policy"], "etag": etag}
        return 200, self.policies[resource]

    def _resource(self, method: str, path: str, query: dict[str, str], body: Json) -> Answer:
        if method == "GET":
            if path in self.resources:
                return 200, self.resources[path]
            return _refused(404, "not found", "NOT_FOUND")
        if method == "PATCH":
            self.resources[path] |= body
            return 200, self.resources[path]
        if path.endswith(":undelete"):
            self.resources[path.removesuffix(":undelete")]["state"] = "ACTIVE"
            return 200, {}
        made = next((query[key] for key in _ID_PARAMETERS if key in query), "")
        if "accountId" in body:
            made = f"{body['accountId']}@{PROJECT}.iam.gserviceaccount.com"
        if f"{path}/{made}" in self.resources:
            return _refused(409, "already exists", "ALREADY_EXISTS")
        self.resources[f"{path}/{made}"] = {"name": made, **body}
        return 200, self.resources[f"{path}/{made}"]

    def _storage(self, method: str, path: str, body: Json) -> Answer:
        name = path.removeprefix("v1/b").strip("/")
        if method == "POST":
            self.buckets[body["name"]] = body
            return 200, body
        if name not in self.buckets:
            return _refused(404, "not found", "notFound")
        if method == "PATCH":
            self.buckets[name] |= body
        return 200, self.buckets[name]


def _refused(status: int, message: str, reason: str) -> Answer:
    return status, {"error": {"message": message, "details": [{"reason": reason}]}}


def refused(status: int, message: str, reason: str = "") -> Answer:
    """Return an answer as Google refuses."""
    return _refused(status, message, reason)


def _handler(google: FakeGoogle) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            url = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            status, answer = google.answer(self.command, url.path.lstrip("/"), query, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PATCH = do_POST = _any

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base
            """Say nothing."""

    return Handler
