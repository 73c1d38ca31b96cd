"""Answers `/ready` once a cluster serves some kinds. Run as `python3 -c` with this file's text.

It needs only the standard library, and no permission: every service account may ask which kinds the
API server serves. Configured by environment variables:

- KINDS: JSON object from an API version to the kinds that it must have.
- POD_IP and PORT: where it answers.
- GKE_INFERENCE_ROOT: folder to use as `/` when reading the service account.
"""

import http.client
import json
import os
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"
LOOK_SECONDS = 2.0


def served(api_version: str) -> "set[str]":
    """Return the kinds that the API server serves of an API version; none if it has no such API.

    Raises:
        OSError: The API server does not answer.
    """
    folder = os.path.join(os.environ.get("GKE_INFERENCE_ROOT", "/"), ACCOUNT)
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    host = f"[{host}]" if ":" in host else host
    with open(os.path.join(folder, "token"), encoding="utf-8") as file:  # the kubelet renews it
        token = file.read().strip()
    request = urllib.request.Request(
        f"https://{host}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}/apis/{api_version}",
        headers={"Authorization": f"Bearer {token}"},
    )
    trust = ssl.create_default_context(cafile=os.path.join(folder, "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=10, context=trust) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return set()
        raise
    return {str(each["kind"]) for each in found["resources"]}


def missing(
    wanted: "dict[str, list[str]]", look: "Callable[[str], set[str]]" = served
) -> "list[str]":
    """Return the kinds that the cluster does not serve.

    Raises:
        OSError: The API server does not answer.
    """
    found: list[str] = []
    for version, kinds in sorted(wanted.items()):
        have = look(version)
        found += [f"{version} {kind}" for kind in kinds if kind not in have]
    return found


def serve(address: str, port: int, is_done: threading.Event) -> ThreadingHTTPServer:
    """Answer `/ready` in a separate thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == "/ready"
            self.send_response(404 if not known else 200 if is_done.is_set() else 503)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
            """Do not log probes."""

    server = ThreadingHTTPServer((address, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    """Look until every kind is served, then stay ready until the pod ends."""
    wanted = json.loads(os.environ["KINDS"])
    is_done = threading.Event()
    serve(os.environ["POD_IP"], int(os.environ["PORT"]), is_done)
    said = ""
    while not is_done.is_set():
        try:
            left = missing(wanted)
            text = f"the cluster does not serve yet: {', '.join(left)}" if left else "complete"
            if not left:
                is_done.set()
        except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
            text = f"looking again: {error}"
        if text != said:
            said = text
            sys.stdout.write(json.dumps({"severity": "INFO", "message": text}) + "\n")
            sys.stdout.flush()
        if not is_done.is_set():
            time.sleep(LOOK_SECONDS)
    threading.Event().wait()


if __name__ == "__main__":
    main()
