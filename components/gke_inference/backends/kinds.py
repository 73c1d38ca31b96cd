"""Kinds of backends: API address, authentication and supported paths."""

from collections.abc import Mapping
from dataclasses import dataclass

from .settings import BackendKind, TargetFields

CHAT = "chat/completions"
EMBEDDINGS = "embeddings"
AI_USER = "roles/aiplatform.user"


@dataclass(frozen=True)
class Kind:
    """One kind of backend."""

    auth: str
    """`google` (an access token), `id-token`, or `secret` (an API key)."""
    url: str
    """Base URL of its API, with `{fields}` of a target."""
    required: tuple[str, ...] = ()
    """Fields that a target must have."""
    optional: tuple[str, ...] = ()
    """Fields that it may have. All others are invalid for it."""
    paths: tuple[str, ...] = ()
    """Paths below `/v1` that it supports, or empty for all relayed paths."""


KINDS: Mapping[BackendKind, Kind] = {
    # platform.claude.com/docs/en/api/openai-sdk: meant for tests and comparisons, says Anthropic
    BackendKind.ANTHROPIC: Kind(
        "secret", "https://api.anthropic.com/v1", ("secret",), paths=(CHAT,)
    ),
    # docs.cloud.google.com/run/docs/authenticating/service-to-service
    BackendKind.CLOUD_RUN: Kind("id-token", "{url}/v1", ("service", "url")),
    # ai.google.dev/gemini-api/docs/openai
    BackendKind.GEMINI: Kind(
        "secret",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("secret",),
        paths=(CHAT, EMBEDDINGS),
    ),
    BackendKind.HTTP: Kind("secret", "{url}", ("url",), ("secret",)),
    # developers.openai.com/api/reference/overview
    BackendKind.OPENAI: Kind("secret", "https://api.openai.com/v1", ("secret",)),
    # cloud.google.com/vertex-ai/docs/reference/rest: projects.locations.endpoints.chat.completions
    BackendKind.VERTEX: Kind(
        "google",
        "https://{host}/v1/projects/{project}/locations/{location}/endpoints/openapi",
        ("location",),
        ("project",),
        paths=(CHAT,),
    ),
}
"""Facts about each kind."""


def address_of(target: TargetFields) -> str:
    """Return the base URL of a target's API."""
    location = str(target.location)
    words = {
        "host": "aiplatform.googleapis.com"
        if location == "global"
        else f"{location}-aiplatform.googleapis.com",
        "location": location,
        "project": target.project,
        "url": (target.url or "").rstrip("/"),
    }
    return KINDS[target.kind].url.format(**words)
