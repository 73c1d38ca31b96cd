"""Every invariant, by subject; one a file, and those of the policy pack that read objects."""

import importlib
import pkgutil
from functools import cache

from policies.invariants.finding import Invariant
from policies.invariants.from_pack import of_rule, of_stack_rule
from policies.rules.capacity import waiting_class
from policies.rules.data import plain_secrets
from policies.rules.serving import (
    backend_health,
    compile_cache,
    disruption_budget,
    pinned_image,
    privileged,
    probes,
    whole_chips,
)

_DESIGN = "this project's policy pack: docs/policies.md"


@cache
def invariants() -> dict[str, tuple[str, Invariant]]:
    """Return every invariant by name: its subject and itself.

    Raises:
        ValueError: two have the same name.
    """
    found: dict[str, tuple[str, Invariant]] = {}
    for info in pkgutil.walk_packages(__path__, f"{__name__}."):
        if not info.ispkg:
            invariant: Invariant = importlib.import_module(info.name).INVARIANT
            _add(found, info.name.split(".")[-2], invariant)
    for subject, invariant in _of_the_pack():
        _add(found, subject, invariant)
    return dict(sorted(found.items()))


def _add(found: dict[str, tuple[str, Invariant]], subject: str, invariant: Invariant) -> None:
    if invariant.name in found:
        raise ValueError(f"invariants: names must be unique, got {invariant.name} twice")
    found[invariant.name] = (subject, invariant)


def _of_the_pack() -> tuple[tuple[str, Invariant], ...]:
    return (
        (
            "routing",
            of_stack_rule(
                backend_health.STACK_RULE,
                "add a HealthCheckPolicy and a GCPBackendPolicy with timeoutSec for the pool",
                "gateway-api-inference-extension #1475; llm-d #2119",
            ),
        ),
        (
            "files",
            of_rule(
                compile_cache.RULE,
                "set VLLM_XLA_CACHE_PATH to a folder on a bucket or claim that is mounted",
                "accelerated-platforms online-inference-tpu base: /data is set and not mounted",
            ),
        ),
        (
            "lifecycle",
            of_stack_rule(
                disruption_budget.STACK_RULE,
                "add a PodDisruptionBudget with maxUnavailable 1 for the pods",
                _DESIGN,
            ),
        ),
        (
            "lifecycle",
            of_rule(pinned_image.RULE, "write the exact release, or its digest", _DESIGN),
        ),
        ("files", of_rule(plain_secrets.RULE, "take it from a Secret by secretKeyRef", _DESIGN)),
        (
            "hardware",
            of_rule(privileged.RULE, "ask for the accelerator as a resource instead", _DESIGN),
        ),
        (
            "lifecycle",
            of_rule(probes.RULE, "add startupProbe and readinessProbe on the health path", _DESIGN),
        ),
        (
            "classes",
            of_rule(
                waiting_class.RULE,
                "write whenUnsatisfiable: DoNotScaleUp",
                "ComputeClass reference; gke-labs/kube-agents #1774",
            ),
        ),
        (
            "hardware",
            of_rule(
                whole_chips.RULE,
                "write the same number in requests and limits",
                "Kubernetes: extended resources cannot be overcommitted",
            ),
        ),
    )
