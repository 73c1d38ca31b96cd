"""Calls to Google's REST APIs for one project, with one-line errors.

CloudError
├── NotFound
└── ServiceDisabled
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

_TIMEOUT_SECONDS: Final = 60
_PROPAGATION_TRIES: Final = 12
_PROPAGATION_SECONDS: Final = 5.0
_OPERATION_TRIES: Final = 150
_OPERATION_SECONDS: Final = 2.0
_SERVICES: Final = "serviceusage.googleapis.com/v1"

Json = dict[str, Any]


class CloudError(Exception):
    """A call that Google refused; one line, with the fix if known."""


class NotFound(CloudError):
    """The requested resource does not exist."""


class ServiceDisabled(CloudError):
    """The API is not enabled in the project."""

    def __init__(self, service: str) -> None:
        """Name the API, such as `compute.googleapis.com`."""
        super().__init__(f"{service} is not enabled in the project")
        self.service = service


class Response(Protocol):
    """An HTTP response."""

    @property
    def status_code(self) -> int:
        """Status of the response."""
        ...

    @property
    def text(self) -> str:
        """Body of the response."""
        ...

    def json(self) -> Any:
        """Return the body, parsed."""
        ...


class Session(Protocol):
    """Sends requests with credentials, like google-auth's `AuthorizedSession`."""

    def request(
        self,
        method: str,
        url: str,
        *,
        json: Json | None,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Response:
        """Send one request."""
        ...


_READING: Final = (
    ":getIamPolicy",
    ":testIamPermissions",
    "/testIamPermissions",
    "/advice/calendarMode",
    "/advice/capacity",
    "/v2/entries:list",
)
"""Read-only POST methods, by the end of their address."""


class WriteRefused(Exception):
    """A read-only session was asked to send a call that may write: a bug in this program."""


@dataclass(frozen=True)
class ReadOnly:
    """A session that sends only GET and read-only POST methods."""

    session: Session
    sent: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Method and address of every call, in order."""

    def request(
        self,
        method: str,
        url: str,
        *,
        json: Json | None,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Response:
        """Send one request.

        Raises:
            WriteRefused: It may change something.
        """
        if method != "GET" and not (method == "POST" and url.endswith(_READING)):
            raise WriteRefused(f"{method} {url}: must be a method that changes nothing")
        self.sent.append((method, url))
        return self.session.request(
            method, url, json=json, params=params, headers=headers, timeout=timeout
        )


@dataclass(frozen=True)
class Cloud:
    """Google's REST APIs for one project.

    `origin` replaces `https://` before the host of every address, for a substitute server:
    `http://127.0.0.1:1234/` sends a call to IAM to `http://127.0.0.1:1234/iam.googleapis.com/v1/…`.
    """

    project: str
    session: Session
    origin: str = "https://"
    sleep: Callable[[float], None] = time.sleep

    def get(self, url: str, **params: str) -> Json:
        """Return a resource. `url` starts with the host, such as `iam.googleapis.com/v1/…`.

        Raises:
            NotFound: There is none.
            ServiceDisabled: Its API is off.
            CloudError: Google refused otherwise.
        """
        return self._send("GET", url, None, params)

    def pages(self, url: str, items: str, **params: str) -> Iterator[Json]:
        """Yield the items of a list, page after page.

        Args:
            url: Address of the list.
            items: Field of an answer with the items.
            params: Parameters of the query.

        Raises:
            CloudError: Google refuses.
        """
        for page in self.answers(url, **params):
            yield from page.get(items, [])

    def answers(self, url: str, **params: str) -> Iterator[Json]:
        """Yield the answers of a list, page after page.

        Raises:
            CloudError: Google refuses.
        """
        token = ""
        while True:
            more = {"pageToken": token} if token else {}
            page = self.get(url, **params, **more)
            yield page
            token = str(page.get("nextPageToken", ""))
            if not token:
                return

    def project_number(self) -> str:
        """Return the project's number; empty if the response has none.

        The name of an API in a response contains it, whether the API is enabled or not
        (docs.cloud.google.com/service-usage/docs/reference/rest/v1/services).

        Raises:
            CloudError: Google refuses.
        """
        found = self.get(f"{_SERVICES}/projects/{self.project}/services/iam.googleapis.com")
        return "".join(str(found.get("name", "")).split("/")[1:2])

    def query(self, url: str, body: Json) -> Json:
        """Read with POST, as the policies of most APIs are read.

        Raises:
            NotFound: There is nothing to read.
            ServiceDisabled: Its API is off.
            CloudError: Google refused otherwise.
        """
        return self._send("POST", url, body, {})

    def post(self, url: str, body: Json, **params: str) -> Json:
        """Create or act; retry until a recent change has propagated.

        Raises:
            CloudError: Google refused.
        """
        return self._patiently("POST", url, body, params)

    def patch(self, url: str, body: Json, **params: str) -> Json:
        """Change a resource; retry like `post`.

        Raises:
            CloudError: Google refused.
        """
        return self._patiently("PATCH", url, body, params)

    def delete(self, url: str) -> Json:
        """Delete a resource; return the response, which may be a running operation.

        Raises:
            NotFound: There is none.
            CloudError: Google refused.
        """
        return self._send("DELETE", url, None, {})

    def wait(self, host: str, operation: Json) -> Json:
        """Wait for a long-running operation and return its response.

        Raises:
            CloudError: It failed, or takes longer than five minutes.
        """
        for _ in range(_OPERATION_TRIES):
            if operation.get("done") or "name" not in operation:
                break
            self.sleep(_OPERATION_SECONDS)
            operation = self.get(f"{host}/v1/{operation['name']}")
        else:
            raise CloudError(f"{operation['name']} takes longer than five minutes; run this again")
        if "error" in operation:
            raise _error(400, {"error": operation["error"]}, host)
        return operation.get("response", {})

    def _patiently(self, method: str, url: str, body: Json, params: Mapping[str, str]) -> Json:
        for _ in range(_PROPAGATION_TRIES):
            try:
                return self._send(method, url, body, params)
            except ServiceDisabled:
                self.sleep(_PROPAGATION_SECONDS)  # a new API takes up to a minute to propagate
            except CloudError as error:
                if "does not exist" not in str(error):
                    raise
                self.sleep(_PROPAGATION_SECONDS)  # so does a new service account
        return self._send(method, url, body, params)

    def _send(self, method: str, url: str, body: Json | None, params: Mapping[str, str]) -> Json:
        response = self.session.request(
            method,
            f"{self.origin}{url}",
            json=body,
            params=params or None,
            headers={"x-goog-user-project": self.project},
            timeout=_TIMEOUT_SECONDS,
        )
        try:
            answer: Json = response.json() if response.text else {}
        except ValueError:
            answer = {"error": {"message": response.text[:200]}}
        if response.status_code >= 400:
            raise _error(response.status_code, answer, url)
        return answer


def _error(status: int, answer: Json, url: str) -> CloudError:
    error: Any = answer.get("error", {})
    if isinstance(error, str):  # as Prometheus answers, whose API Cloud Monitoring has as well
        error = {"message": error}
    details: list[Json] = error.get("details") or []
    reasons = {str(detail.get("reason", "")) for detail in details}
    message = " ".join(str(error.get("message", f"HTTP {status}")).split())
    service = url.split("/", 1)[0]
    if "SERVICE_DISABLED" in reasons:
        return ServiceDisabled(service)
    if "BILLING_DISABLED" in reasons or "billing" in message.lower():
        return CloudError(f"billing is off: link a billing account to the project ({message})")
    if status == 404:
        return NotFound(f"{url} does not exist")
    if status in {401, 403}:
        return CloudError(f"no permission at {service}: {message}")
    return CloudError(f"{service} answered {status}: {message}")


def last(path: object) -> str:
    """Return the last part of a resource's name or address."""
    return str(path).rpartition("/")[2]
