"""Guardrails: checks of prompts and answers, and their failure mode."""

from enum import StrEnum

from pydantic import Field

from gke_inference.guardrails.settings import (
    ArmorFilters,
    Enforcement,
    Failure,
    GuardReplicas,
    GuardTimeoutMs,
    Phase,
)
from gke_inference.settings import Settings


class GuardrailKind(StrEnum):
    """Implementation of a guardrail."""

    MODEL_ARMOR = "model-armor"
    NEMO = "nemo"


class Guardrail(Settings):
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
    replicas: GuardReplicas | None = None
    """NeMo only: replicas in each region. By default, 3 where protection is on and 2 elsewhere."""
    timeout_ms: GuardTimeoutMs | None = None
    """Maximum time to wait for a verdict. By default, 1000 per message for Model Armor and 2000 per
    check for NeMo."""
