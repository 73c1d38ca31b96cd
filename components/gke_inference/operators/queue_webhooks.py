"""Webhooks of Kueue, which default and validate its own kinds and suspend queued jobs.

Objects: sigs.k8s.io/kueue v0.19.2, config/components/webhook, for the kinds that this installation
queues. Kueue finds them by name and writes its CA into them.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from gke_inference.base.manifests import Manifest, labels_for, manifest
from gke_inference.catalogue.versions import api

from .hooks import Target, hook

MUTATING: Final = "kueue-mutating-webhook-configuration"
VALIDATING: Final = "kueue-validating-webhook-configuration"
QUEUED_NAMESPACE: Final = {"gke-inference/jobs": "queued"}
"""Label of the namespaces in which all jobs queue; other namespaces do not depend on Kueue."""
_BOTH: Final = ["CREATE", "UPDATE"]
_OF_TEAMS: Final = {"namespaceSelector": {"matchLabels": QUEUED_NAMESPACE}}
_QUEUED: Final = (("job", "jobs"), ("job_set", "jobsets"))
"""Kinds that queue: name in the versions lock, and plural."""
_LABELS: Final = labels_for("queue-webhooks", "queue-operator")


def webhooks(namespace: str, service: str, *, job_sets: bool = False) -> dict[str, Manifest]:
    """Return the webhook configurations by role: `mutating` and `validating`.

    Args:
        namespace: Namespace of the operator.
        service: Name of the operator's Service.
        job_sets: Whether sets of jobs (`JobSet`) queue as well.
    """
    target = Target(namespace, service)
    queued = _QUEUED if job_sets else _QUEUED[:1]
    first, second = [*_mutating(target, queued)], [*_validating(target, queued)]
    return {
        "mutating": manifest("mutating_webhooks", MUTATING, labels=_LABELS, webhooks=first),
        "validating": manifest("validating_webhooks", VALIDATING, labels=_LABELS, webhooks=second),
    }


def _mutating(target: Target, queued: Sequence[tuple[str, str]]) -> Iterator[Manifest]:
    for lock_name, plural in _KINDS:
        if lock_name != "queue_cohort":
            yield hook(target, "mutate", lock_name, [plural], ["CREATE"])
    for lock_name, plural in queued:
        yield hook(target, "mutate", lock_name, [plural], ["CREATE"], selector=_OF_TEAMS)


def _validating(target: Target, queued: Sequence[tuple[str, str]]) -> Iterator[Manifest]:
    for lock_name, plural in _KINDS:
        resources = [plural, "workloads/status"] if plural == "workloads" else [plural]
        yield hook(target, "validate", lock_name, resources, _BOTH)
    for lock_name, plural in queued:
        yield hook(target, "validate", lock_name, [plural], _BOTH, selector=_OF_TEAMS)


_KINDS: Final = tuple(
    (lock_name, f"{api(lock_name).kind.lower()}s")
    for lock_name in ("cluster_queue", "queue_cohort", "queued_workload", "resource_flavor")
)
