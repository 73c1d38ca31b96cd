"""Client of the Kubernetes API server for small programs.

It needs only the standard library and imports nothing of this folder: a program that runs as the
text of one file begins with the text of this one.
"""

import json
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"
_ANSWER_SECONDS = 30


class KubeError(Exception):
    """The API server rejected a request."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the API server answers {code} {reason}")
        self.code = code


class Kube:
    """Client of the API server, with this pod's service account.

    Its folder is below `GKE_INFERENCE_ROOT`, by default `/`.
    """

    def __init__(self) -> None:
        folder = Path(os.environ.get("GKE_INFERENCE_ROOT", "/")) / _ACCOUNT
        self.namespace = (folder / "namespace").read_text().strip()
        host = os.environ["KUBERNETES_SERVICE_HOST"]
        host = f"[{host}]" if ":" in host else host
        self._url = f"https://{host}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}"
        self._token = folder / "token"
        self._trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))

    def call(
        self, method: str, path: str, body: "dict[str, Any] | None" = None
    ) -> "dict[str, Any]":
        """Return the response to a request; a PATCH is a merge patch.

        Raises:
            KubeError: The server rejects the request.
            OSError: The server does not answer.
        """
        with self._open(method, path, body, _ANSWER_SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def wait(self, path: str, version: str, seconds: int) -> None:
        """Wait until an object of a list changes, or until the timeout.

        Raises:
            KubeError: The server rejects the request.
            OSError: The server does not answer.
        """
        query = f"watch=1&resourceVersion={version}&timeoutSeconds={seconds}"
        with self._open("GET", f"{path}?{query}", None, seconds + _ANSWER_SECONDS) as answer:
            answer.readline()

    def _open(self, method: str, path: str, body: "dict[str, Any] | None", seconds: int) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        token = self._token.read_text().strip()  # the kubelet renews it
        request = urllib.request.Request(  # noqa: S310 - always the API server
            f"{self._url}/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": kind},
            method=method,
        )
        try:
            return urllib.request.urlopen(request, timeout=seconds, context=self._trust)  # noqa: S310
        except urllib.error.HTTPError as error:
            raise KubeError(error.code, error.reason) from None
