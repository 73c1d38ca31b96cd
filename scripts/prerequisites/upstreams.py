"""Credentials of the registries that images are pulled through."""

from collections.abc import Iterator
from typing import Final

from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.prerequisites.wanted import secret_versions
from scripts.shared.google_cloud import NotFound

_SECRETS: Final = "secretmanager.googleapis.com/v1"


def upstream_credentials(project: Project) -> Iterator[Finding]:
    """Yield whether every password exists. `up` checks it when it creates the repository."""
    for version, registry in secret_versions(project.plan).items():
        yield _password(project, version, registry)


def _password(project: Project, version: str, registry: str) -> Finding:
    _, owner, _, secret, _, number = version.split("/")
    subject, which = "secret", f"{secret} version {number} of {owner}"

    def look() -> Finding:
        try:
            found = project.cloud.get(f"{_SECRETS}/{version}")
        except NotFound:
            command = f"gcloud secrets create {secret} --project={owner} --data-file=FILE"
            return Finding(subject, which, State.MISSING, f"there is none; {registry}", command)
        state = str(found.get("state"))
        if state != "ENABLED":
            says = f"is {state}; must be ENABLED"
            command = f"gcloud secrets versions add {secret} --project={owner} --data-file=FILE"
            return Finding(subject, which, State.MISSING, says, command)
        return Finding(subject, which, State.MET, f"ENABLED; {registry}")

    return judged(project, subject, which, look)
