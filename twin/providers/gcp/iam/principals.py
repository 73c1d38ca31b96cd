"""Callers of Google's APIs: a Kubernetes service account, or a Google service account.

Client libraries send no token to an emulator. The address that a program gets therefore contains
its caller, as a prefix of the path: `/as/ksa/PROJECT/NAMESPACE/NAME` or `/as/gsa/EMAIL`.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

_PREFIX: Final = re.compile(
    r"/as/(?:ksa/(?P<project>[^/?]+)/(?P<namespace>[^/?]+)/(?P<account>[^/?]+)|gsa/(?P<email>[^/?]+))"
    r"(?=[/?]|$)"
)
_MEMBER: Final = re.compile(
    r"principal(?:Set)?://iam\.googleapis\.com/projects/\d+/locations/global/"
    r"workloadIdentityPools/(?P<project>[^/]+)\.svc\.id\.goog/(?P<whom>.+)"
)


@dataclass(frozen=True)
class Principal:
    """A caller."""

    project: str
    """Project of the cluster, or of the Google service account."""
    path: str
    """Prefix of the paths that it requests."""
    whom: frozenset[str]
    """What follows the workload pool in a grant to it; or the member of a grant."""
    name: str
    """Name in errors of Cloud Storage."""

    @classmethod
    def of_pod(cls, project: str, namespace: str, account: str) -> Self:
        """Return the identity of pods with a Kubernetes service account."""
        whom = {f"subject/ns/{namespace}/sa/{account}", f"namespace/{namespace}"}
        path = f"/as/ksa/{project}/{namespace}/{account}"
        return cls(project, path, frozenset(whom), "Caller")

    @classmethod
    def of_google_account(cls, email: str) -> Self:
        """Return the identity of a Google service account."""
        project = email.partition("@")[2].partition(".")[0]
        return cls(project, f"/as/gsa/{email}", frozenset({f"serviceAccount:{email}"}), email)

    def is_named_by(self, member: object) -> bool:
        """Return whether a member of a grant includes the caller."""
        found = _MEMBER.fullmatch(str(member))
        if found is None:
            return str(member) in self.whom
        return found["project"] == self.project and found["whom"] in self.whom


def split(path: str) -> tuple[Principal | None, str]:
    """Return the caller in a request's path, and the path without it."""
    found = _PREFIX.match(path)
    if found is None:
        return None, path
    rest = path[found.end() :]
    if found["email"] is not None:
        return Principal.of_google_account(found["email"]), rest
    return Principal.of_pod(found["project"], found["namespace"], found["account"]), rest
