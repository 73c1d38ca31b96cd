"""Physical names, `<prefix>-<environment>-<role>`, and the length Google Cloud allows each kind.

A name is checked as a whole and refused when it is too long; it is never cut, because two cut names
may become one. Limits: resource naming pages of Compute Engine, GKE, IAM and Cloud Storage.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class NameRule:
    """What one kind of name may be."""

    max_length: int
    min_length: int = 1
    pattern: str = r"[a-z]([-a-z0-9]*[a-z0-9])?"
    words: str = "lower-case letters, digits and '-', starting with a letter"


KINDS = {
    "bucket": NameRule(
        63, 3, r"[a-z0-9][-a-z0-9_]*[a-z0-9]", "lower-case letters, digits, - and _"
    ),
    "cluster": NameRule(40),
    "compute": NameRule(63),
    "namespace": NameRule(63, pattern=r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
    "node_pool": NameRule(40),
    "service_account": NameRule(30, 6),
}
"""`compute` is any Compute Engine resource: network, subnet, disk, image, policy."""

ROLE_SEPARATOR = "-"


def physical_name(kind: str, prefix: str, environment: str, role: str) -> str:
    """Returns `<prefix>-<environment>-<role>`.

    Raises:
        ValueError: A part is empty, or the whole is not a name of that kind.
    """
    parts = {"prefix": prefix, "environment": environment, "role": role}
    for part, value in parts.items():
        if not value:
            raise ValueError(f"{part} must not be empty in the name of a {kind}")
    return check_name(kind, ROLE_SEPARATOR.join(parts.values()))


def check_name(kind: str, name: str) -> str:
    """Returns the name unchanged.

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
    """Return the name of a model's Deployment by kind of hardware, or one under `any`.

    Args:
        model: Its name in Kubernetes.
        form: `single`, `paired` or `dual-container`.
        role: `decode` or `prefill`; None where one server does both.
        kinds: Kinds of its rungs, `tpu` and `gpu`.
    """
    if form == "dual-container":
        return {"any": model}
    if role is not None:
        return dict.fromkeys(kinds, f"{model}-{role}")
    return {kind: f"{model}-{kind}" for kind in kinds}
