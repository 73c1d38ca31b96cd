"""Kinds of backends: API address, authentication and supported paths."""

from collections.abc import Mapping
from dataclasses import dataclass

CHAT = "chat/completions"
EMBEDDINGS = "embeddings"
AI_USER = "roles/aiplatform.user"
INVOKER = "roles/run.invoker"


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


KINDS: Mapping[str, Kind] = {
    # platform.claude.com/docs/en/api/openai-sdk: meant for tests and comparisons, says Anthropic
    "anthropic": Kind("secret", "https://api.anthropic.com/v1", ("secret",), paths=(CHAT,)),
    # docs.cloud.google.com/run/docs/authenticating/service-to-service
    "cloud-run": Kind("id-token", "{url}/v1", ("service", "url")),
    # ai.google.dev/gemini-api/docs/openai
    "gemini": Kind(
        "secret",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("secret",),
        paths=(CHAT, EMBEDDINGS),
    ),
    "http": Kind("secret", "{url}", ("url",), ("secret",)),
    # developers.openai.com/api/reference/overview
    "openai": Kind("secret", "https://api.openai.com/v1", ("secret",)),
    # cloud.google.com/vertex-ai/docs/reference/rest: projects.locations.endpoints.chat.completions
    "vertex": Kind(
        "google",
        "https://{host}/v1/projects/{project}/locations/{location}/endpoints/openapi",
        ("location",),
        ("project",),
        paths=(CHAT,),
    ),
}
"""Facts about each kind, by its name in a stack."""
FIELDS = ("location", "project", "secret", "service", "url")
"""Fields of a target that only some kinds have."""


def wrong_field(kind: str, given: Mapping[str, object]) -> tuple[str, str] | None:
    """Return a field that is invalid for a kind, with the rule, or None."""
    known = KINDS[kind]
    for field in FIELDS:
        is_given = given.get(field) is not None
        if field in known.required and not is_given:
            return field, f"is required when kind is {kind}"
        if is_given and field not in (*known.required, *known.optional):
            return field, f"must not be set when kind is {kind}"
    url = given.get("url")
    if url is None:
        return None
    if not str(url).startswith("https://") and (kind != "http" or given.get("secret") is not None):
        return "url", "must begin with https:// when a credential is sent"
    return None


def address_of(kind: str, given: Mapping[str, object]) -> str:
    """Return the base URL of a target's API."""
    location = str(given.get("location"))
    words = {
        "host": "aiplatform.googleapis.com"
        if location == "global"
        else f"{location}-aiplatform.googleapis.com",
        "location": location,
        "project": given.get("project"),
        "url": str(given.get("url") or "").rstrip("/"),
    }
    return KINDS[kind].url.format(**words)
