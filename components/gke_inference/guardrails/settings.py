"""Settings of guardrails, which stacks, Model Armor, NeMo Guardrails and gates share."""

from typing import Annotated, Final, TypedDict

from pydantic import Field

from gke_inference.settings import Settings, Word


class Failure(Word):
    """Behavior while a guardrail returns no verdict."""

    CLOSED = "closed"
    OPEN = "open"


class Enforcement(Word):
    """Action of Model Armor on a match."""

    BLOCK = "block"
    INSPECT = "inspect"


class Confidence(Word):
    """Minimum confidence for a Model Armor filter to match."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Phase(Word):
    """Messages that a guard in the cluster checks."""

    INPUT = "input"
    OUTPUT = "output"


GuardTimeoutMs = Annotated[int, Field(ge=10, le=10_000)]
"""Maximum time to wait for a verdict, in milliseconds."""
GuardReplicas = Annotated[int, Field(ge=1, le=20)]
"""Replicas of a guard in the cluster, in each region."""
REPLICAS: Final = 2


class ArmorFilters(Settings):
    """Model Armor filters. An omitted filter is off."""

    dangerous: Confidence | None = None
    """Dangerous content."""
    harassment: Confidence | None = None
    """Harassment."""
    hate: Confidence | None = None
    """Hate speech."""
    malicious_urls: bool = False
    """URLs that lead to malware or phishing."""
    prompt_injection: Confidence | None = None
    """Prompt injection and jailbreaks."""
    sensitive_data: bool = False
    """Personal data and credentials, with the basic detectors of Sensitive Data Protection."""
    sexually_explicit: Confidence | None = None
    """Sexually explicit content."""


class ArmorCallArgs(TypedDict):
    """One call from a Gateway to Model Armor."""

    failure: Failure
    """While Model Armor is unavailable, `closed` rejects requests and `open` allows them."""
    location: str
    """Region of the templates, which must be that of the Gateway."""
    templates: dict[str, str]
    """Template of each model, `projects/P/locations/L/templates/T`, by the name that clients
    request."""
    timeout_ms: GuardTimeoutMs
    """Timeout per message in milliseconds."""
