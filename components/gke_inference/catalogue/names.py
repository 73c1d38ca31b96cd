"""Physical names, `<prefix>-<environment>-<role>`, and Google Cloud's length limits by kind.

A name that is too long is rejected, never truncated, because two truncated names may be equal.
Limits: resource naming pages of Compute Engine, GKE, IAM, Cloud Run and Cloud Storage.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

ONE_POD_FORMS = ("dra", "dual-container")
"""Forms of a model that has one Deployment for both kinds of hardware."""


@dataclass(frozen=True)
class NameRule:
    """Requirements for one kind of name."""

    max_length: int
    min_length: int = 1
    pattern: str = r"[a-z]([-a-z0-9]*[a-z0-9])?"
    words: str = "lowercase letters, digits and '-', starting with a letter"


KINDS = {
    "bucket": NameRule(63, 3, r"[a-z0-9][-a-z0-9_]*[a-z0-9]", "lowercase letters, digits, - and _"),
    "cluster": NameRule(40),
    "compute": NameRule(63),
    "namespace": NameRule(63, pattern=r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
    "node_pool": NameRule(40),
    "run_service": NameRule(49),
    "service_account": NameRule(30, 6),
}
"""`compute` is any Compute Engine resource: network, subnet, disk, image, policy. `run_service` is
from docs.cloud.google.com/run/docs/reference/rest/v2/projects.locations.services/create."""

ROLE_SEPARATOR = "-"


def router_name(gateway: str) -> str:
    """Return the name of a Gateway's body router, which is also the label `job` of its series."""
    return f"{gateway}-body-router"


def service_account_email(account_id: str, project: str) -> str:
    """Return the address of a project's service account, which is known before the account is."""
    return f"{account_id}@{project}.iam.gserviceaccount.com"


def physical_name(kind: str, prefix: str, environment: str, role: str) -> str:
    """Return `<prefix>-<environment>-<role>`.

    Raises:
        ValueError: A part is empty, or the whole is not a name of that kind.
    """
    parts = {"prefix": prefix, "environment": environment, "role": role}
    for part, value in parts.items():
        if not value:
            raise ValueError(f"{part} must not be empty in the name of a {kind}")
    return check_name(kind, ROLE_SEPARATOR.join(parts.values()))


def check_name(kind: str, name: str) -> str:
    """Return the name unchanged.

    Raises:
        ValueError: It is too long, too short or has a character it must not have.
    """
    rule = KINDS[kind]
    if not rule.min_length <= len(name) <= rule.max_length:
        raise ValueError(
            f"must be {rule.min_length} to {rule.max_length} characters for a "
            f"{kind.replace('_', ' ')}, got {len(name)}: {name!r}"
        )
    if not re.fullmatch(rule.pattern, name):
        raise ValueError(f"must be {rule.words}, got {name!r}")
    return name


def deployment_names(
    model: str, form: str, role: str | None, kinds: Iterable[str]
) -> dict[str, str]:
    """Return the names of a model's Deployments by hardware kind, or one under `any`.

    Args:
        model: Name of the model in Kubernetes.
        form: `single`, `paired`, `dual-container` or `dra`.
        role: `decode` or `prefill`; None if one server does both.
        kinds: Kinds of its rungs, `tpu` and `gpu`.
    """
    if form in ONE_POD_FORMS:
        return {"any": model}
    if role is not None:
        return dict.fromkeys(kinds, f"{model}-{role}")
    return {kind: f"{model}-{kind}" for kind in kinds}
