"""Service accounts that a stack grants access to but does not create."""

from collections.abc import Iterator
from typing import Final

from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.prerequisites.wanted import service_accounts
from scripts.shared.google_cloud import NotFound

_IAM: Final = "iam.googleapis.com/v1"


def accounts(project: Project) -> Iterator[Finding]:
    """Yield whether each service account exists and is enabled.

    Fields: docs.cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts (2026-11-24).
    """
    for email in service_accounts(project.plan):
        yield _account(project, email)


def _account(project: Project, email: str) -> Finding:
    name, _, domain = email.partition("@")
    owner = domain.partition(".")[0]
    subject = "service account"
    command = f"gcloud iam service-accounts create {name} --project={owner}"

    def look() -> Finding:
        try:
            found = project.cloud.get(f"{_IAM}/projects/{owner}/serviceAccounts/{email}")
        except NotFound:
            return Finding(subject, email, State.MISSING, "there is none", command)
        if found.get("disabled") is True:
            enable = f"gcloud iam service-accounts enable {email} --project={owner}"
            return Finding(subject, email, State.MISSING, "is disabled", enable)
        return Finding(subject, email, State.MET, "exists; the stack does not change it")

    return judged(project, subject, email, look)
