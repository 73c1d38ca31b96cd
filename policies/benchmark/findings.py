"""Findings of checkov that stay, each with its reason.

checkov checks Kubernetes objects one at a time. What it reports about the rendered objects of the
stack `prod` and is not fixed is in checkov.yaml; a finding that is not there fails a test.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

FILE: Final = Path(__file__).with_name("checkov.yaml")
LOCK: Final = FILE.with_suffix(".lock")
"""checkov with its packages, with hashes."""


@dataclass(frozen=True, order=True)
class Finding:
    """A check that an object fails."""

    check: str
    """Identifier of the check, such as `CKV_K8S_11`."""
    resource: str
    """The object: KIND.NAMESPACE.NAME, with NAMESPACE `default` for objects without one."""


@dataclass(frozen=True)
class Explained:
    """Findings of a check with one reason."""

    check: str
    title: str
    """What the check asks for, in checkov's words."""
    objects: tuple[str, ...]
    """Patterns of `Finding.resource`; `*` stands for any text."""
    reason: str

    def covers(self, finding: Finding) -> bool:
        """Return whether the reason is about a finding."""
        return finding.check == self.check and any(
            fnmatchcase(finding.resource, each) for each in self.objects
        )


def stack() -> str:
    """Return the stack whose objects are checked."""
    return str(_data()["stack"])


def version() -> str:
    """Return the version of checkov."""
    return str(_data()["version"])


def explained() -> list[Explained]:
    """Return the reasons, by check and then in the order of the file."""
    return [
        Explained(
            each["check"], check_titles()[each["check"]], tuple(each["objects"]), each["reason"]
        )
        for each in _data()["findings"]
    ]


def check_titles() -> dict[str, str]:
    """Return what each check asks for, by its identifier."""
    return dict(_data()["checks"])


def unexplained(found: Iterable[Finding], reasons: Iterable[Explained]) -> list[Finding]:
    """Return the findings without a reason."""
    listed = list(reasons)
    return sorted(each for each in found if not any(one.covers(each) for one in listed))


def idle(found: Iterable[Finding], reasons: Iterable[Explained]) -> list[Finding]:
    """Return the patterns that are about no finding, as findings of the check."""
    listed = list(found)
    return sorted(
        Finding(one.check, pattern)
        for one in reasons
        for pattern in one.objects
        if not any(Explained(one.check, "", (pattern,), "").covers(each) for each in listed)
    )


@cache
def _data() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))
