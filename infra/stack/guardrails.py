"""Guardrails: checks of prompts and answers, and their failure mode."""

from enum import StrEnum

from pydantic import Field

from infra.stack.fields import StackModel


class GuardrailKind(StrEnum):
    """Implementation of a guardrail."""

    MODEL_ARMOR = "model-armor"
    NEMO = "nemo"


class Failure(StrEnum):
    """Behavior while a guardrail returns no verdict."""

    CLOSED = "closed"
    OPEN = "open"


class Enforcement(StrEnum):
    """Action of Model Armor on a match."""

    BLOCK = "block"
    INSPECT = "inspect"


class Confidence(StrEnum):
    """Minimum confidence for a Model Armor filter to match."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Phase(StrEnum):
    """Messages that NeMo Guardrails checks."""

    INPUT = "input"
    OUTPUT = "output"


class ArmorFilters(StackModel):
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
    """Personal data and credentials."""
    sexually_explicit: Confidence | None = None
    """Sexually explicit content."""


class Guardrail(StackModel):
    """One guardrail, which models and teams reference by name."""

    kind: GuardrailKind
    """`model-armor` is Google's service, called by the load balancer. `nemo` is NeMo Guardrails in
    each cluster, called by the gate of `clients`."""
    failure: Failure
    """While the guardrail returns no verdict, `closed` rejects requests with 503; `open` lets them
    pass and counts them."""
    config: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_./-]{0,199}$")
    """NeMo only: folder with `config.yml` and other NeMo Guardrails files, relative to the
    repository root. By default, prompt injections are blocked and personal data is masked."""
    enforcement: Enforcement | None = None
    """Model Armor only: `block` (default), or `inspect`, which only reports."""
    filters: ArmorFilters | None = None
    """Model Armor only: filters to apply. Required."""
    floor: bool = False
    """Model Armor only: whether its filters become the floor settings of the project, the minimum
    for every template."""
    phases: tuple[Phase, ...] = Field(default=(Phase.INPUT, Phase.OUTPUT), min_length=1)
    """NeMo only: whether it checks prompts, answers or both. Both by default."""
    replicas: int | None = Field(default=None, ge=1, le=20)
    """NeMo only: replicas in each region. By default, 3 where protection is on and 2 elsewhere."""
    timeout_ms: int | None = Field(default=None, ge=10, le=10_000)
    """Maximum time to wait for a verdict. By default, 1000 per message for Model Armor and 2000 per
    check for NeMo."""
