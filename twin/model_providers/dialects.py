"""API dialects of providers: paths, credentials and errors.

Sources: developers.openai.com/api/reference (errors), platform.claude.com/docs/en/api/openai-sdk
and /api/errors, ai.google.dev/gemini-api/docs/openai, cloud.google.com/apis/design/errors, and
docs.cloud.google.com/run/docs/authenticating/service-to-service. That Gemini's and Vertex AI's
errors are a list on these paths is assumed from users' reports.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

ACCESS_TOKEN: Final = "ya29.twin-relay"  # noqa: S105 (of a twin)
"""Access token of the pod that calls the metadata server; on a twin, only relays do."""
_ID_TOKEN: Final = "twin-id-token."  # noqa: S105 (of a twin)
_VERTEX_HOST = re.compile(r"(?:([a-z]+-[a-z]+[0-9]+)-)?aiplatform\.googleapis\.com")
_VERTEX_PATH = re.compile(
    r"/v1/projects/([^/]+)/locations/([^/]+)/endpoints/openapi/chat/completions"
)
_SHORTEST_KEY: Final = 20


@dataclass(frozen=True)
class Refusal:
    """An error response."""

    status: int
    body: Any
    content_type: str = "application/json"

    @property
    def content(self) -> bytes:
        """Return the body as bytes."""
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Grants:
    """A relay's IAM permissions in the cloud; tests pass their own."""

    may_use_vertex: Callable[[str], bool]
    """Returns the permission for a project."""
    may_make_tokens: Callable[[str], bool]
    """Returns the permission for a service account's address."""
    may_invoke: Callable[[str, str], bool]
    """Returns the permission for a Cloud Run host and a service account's address."""


def id_token(audience: str, account: str) -> str:
    """Return an ID token of a service account for an audience."""
    return f"{_ID_TOKEN}{account}.for.{audience}"


def refusal_of(host: str, path: str, token: str, model: str, grants: Grants) -> Refusal | None:
    """Return a provider's error for a request, or None if it answers.

    Args:
        host: Host name that the client called.
        path: Path of the request.
        token: Credential in `Authorization: Bearer`, if any.
        model: Model name in the body.
        grants: IAM permissions.
    """
    if _VERTEX_HOST.fullmatch(host):
        return _vertex(host, path, token, model, grants)
    if host.endswith(".run.app"):
        return _cloud_run(host, path, token, grants)
    known = {
        "api.anthropic.com": _anthropic,
        "api.openai.com": _openai,
        "generativelanguage.googleapis.com": _gemini,
    }
    return known[host](path, token) if host in known else _http(path)


def error_of(host: str, status: int, message: str) -> Refusal:
    """Return an error of any status in a provider's format."""
    if host.endswith("googleapis.com"):
        words = {429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE", 400: "INVALID_ARGUMENT"}
        return _google(status, message, words.get(status, "UNKNOWN"))
    if host == "api.anthropic.com":
        kinds = {429: "rate_limit_error", 529: "overloaded_error"}
        return _of_anthropic(status, kinds.get(status, "api_error"), message)
    if host.endswith(".run.app"):
        return Refusal(status, f"<html><title>{status}</title></html>", "text/html")
    return _of_openai(status, "server_error", message, None)


def _is_key(token: str, prefix: str) -> bool:
    return token.startswith(prefix) and len(token) >= _SHORTEST_KEY


def _of_openai(status: int, kind: str, message: str, code: str | None) -> Refusal:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return Refusal(status, {"error": error})


def _of_anthropic(status: int, kind: str, message: str) -> Refusal:
    return Refusal(status, {"type": "error", "error": {"type": kind, "message": message}})


def _google(status: int, message: str, word: str) -> Refusal:
    return Refusal(status, [{"error": {"code": status, "message": message, "status": word}}])


def _openai(path: str, token: str) -> Refusal | None:
    if not token:
        text = "You didn't provide an API key."
        return _of_openai(401, "invalid_request_error", text, None)
    if not _is_key(token, "sk-") or token.startswith("sk-ant-"):
        text = f"Incorrect API key provided: {token[:8]}***."
        return _of_openai(401, "invalid_request_error", text, "invalid_api_key")
    if path not in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings"):
        return _of_openai(404, "invalid_request_error", f"Invalid URL (POST {path})", None)
    return None


def _anthropic(path: str, token: str) -> Refusal | None:
    if not _is_key(token, "sk-ant-"):
        return _of_anthropic(401, "authentication_error", "invalid x-api-key")
    if path != "/v1/chat/completions":
        return _of_anthropic(404, "not_found_error", "Not found")
    return None


def _gemini(path: str, token: str) -> Refusal | None:
    if not token:
        text = "Missing or invalid Authorization header."
        return _google(400, text, "INVALID_ARGUMENT")
    if not _is_key(token, "AIza"):
        text = "API key not valid. Please pass a valid API key."
        return _google(400, text, "INVALID_ARGUMENT")
    if path not in (
        "/v1beta/openai/chat/completions",
        "/v1beta/openai/embeddings",
    ):
        return Refusal(404, "", "text/html")
    return None


def _vertex(host: str, path: str, token: str, model: str, grants: Grants) -> Refusal | None:
    found = _VERTEX_PATH.fullmatch(path)
    region = _VERTEX_HOST.fullmatch(host)
    if found is None or region is None or found[2] != (region[1] or "global"):
        return Refusal(404, "<html><title>Error 404 (Not Found)</title></html>", "text/html")
    if token != ACCESS_TOKEN:
        text = "Request had invalid authentication credentials. Expected OAuth 2 access token."
        return _google(401, text, "UNAUTHENTICATED")
    if not grants.may_use_vertex(found[1]):
        text = "Permission 'aiplatform.endpoints.predict' denied on resource"
        return _google(403, text, "PERMISSION_DENIED")
    if "/" not in model:
        return _google(400, f"Malformed publisher model {model}", "INVALID_ARGUMENT")
    return None


def _cloud_run(host: str, path: str, token: str, grants: Grants) -> Refusal | None:
    return run_refusal(host, token, grants) or _http(path)


def run_refusal(host: str, token: str, grants: Grants) -> Refusal | None:
    """Return the error of Cloud Run for a caller that is not authenticated or not an invoker."""
    account, _, audience = token.removeprefix(_ID_TOKEN).partition(".for.")
    if not token.startswith(_ID_TOKEN) or audience != f"https://{host}":
        return Refusal(401, "<html><title>401 Unauthorized</title></html>", "text/html")
    if not grants.may_invoke(host, account):
        return Refusal(403, "<html><title>403 Forbidden</title></html>", "text/html")
    return None


def _http(path: str) -> Refusal | None:
    if path not in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings"):
        return Refusal(404, {"detail": "Not Found"})
    return None
