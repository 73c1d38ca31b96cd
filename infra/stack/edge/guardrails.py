"""Guardrails: what looks at prompts and answers, and what happens while it is away."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import StackModel


class GuardrailKind(StrEnum):
    """What looks."""

    MODEL_ARMOR = "model-armor"
    NEMO = "nemo"


class Failure(StrEnum):
    """What happens while a guardrail gives no verdict."""

    CLOSED = "closed"
    OPEN = "open"


class Enforcement(StrEnum):
    """What Model Armor does with what it finds."""

    BLOCK = "block"
    INSPECT = "inspect"


class Confidence(StrEnum):
    """Least confidence of a filter of Model Armor."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Phase(StrEnum):
    """What NeMo Guardrails checks."""

    INPUT = "input"
    OUTPUT = "output"


class ArmorFilters(StackModel):
    """Filters of Model Armor; one that is left out is off."""

    dangerous: Confidence | None = None
    """Content that helps to harm people."""
    harassment: Confidence | None = None
    """Harassment."""
    hate: Confidence | None = None
    """Hate speech."""
    malicious_urls: bool = False
    """Addresses that lead to malware or phishing."""
    prompt_injection: Confidence | None = None
    """Prompt injection and jailbreaks."""
    sensitive_data: bool = False
    """Personal data and credentials."""
    sexually_explicit: Confidence | None = None
    """Sexually explicit content."""


class Guardrail(StackModel):
    """One guardrail, which models and teams name."""

    kind: GuardrailKind
    """`model-armor` is Google's service, called by the load balancer; `nemo` is NeMo Guardrails in
    each cluster, called by the gate of `clients`."""
    failure: Failure
    """While it gives no verdict, `closed` refuses requests with 503, `open` lets them pass and
    counts them."""
    config: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_./-]{0,199}$")
    """Nemo only: folder with `config.yml` and other files of NeMo Guardrails, from the root of the
    repository. By default prompt injections are blocked and personal data is masked."""
    enforcement: Enforcement | None = None
    """Model Armor only: `block` (default), or `inspect`, which only reports."""
    filters: ArmorFilters | None = None
    """Model Armor only: what it looks for; required."""
    floor: bool = False
    """Model Armor only: makes its filters the least that every template of the project has."""
    phases: tuple[Phase, ...] = Field(default=(Phase.INPUT, Phase.OUTPUT), min_length=1)
    """Nemo only: whether it checks prompts, answers, or both, which is the default."""
    replicas: int | None = Field(default=None, ge=1, le=20)
    """Nemo only: replicas in each region, by default 3 where protection is on and 2 elsewhere."""
    timeout_ms: int | None = Field(default=None, ge=10, le=10_000)
    """Longest wait for a verdict, by default 1000 for Model Armor, for each message, and 2000 for
    nemo, for each check."""
