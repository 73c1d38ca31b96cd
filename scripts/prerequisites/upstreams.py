"""Credentials of the registries that images are pulled through."""

from collections.abc import Iterator
from typing import Final

from scripts.prerequisites import wanted
from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.shared.google_cloud import NotFound

_SECRETS: Final = "secretmanager.googleapis.com/v1"


def upstream_credentials(project: Project) -> Iterator[Finding]:
    """Yield whether every password exists. `up` checks it when it creates the repository."""
    for version, registry in wanted.secret_versions(project.plan).items():
        field = f"images.pull_through.credentials.{registry}.secret"
        yield _password(project, version, f"credentials for {registry}", registry, field)


def engine_secrets(project: Project) -> Iterator[Finding]:
    """Yield whether every secret that an engine reads when it starts has a value."""
    for version, field in wanted.engine_secrets(project.plan).items():
        yield _password(project, version, f"for {field}", field, field)


def _password(project: Project, version: str, use: str, label: str, field: str) -> Finding:
    _, owner, _, secret, _, number = version.split("/")
    subject, which = "secret", f"{secret} version {number} of {owner}"

    at = f"--project={owner}"
    add = f"gcloud secrets versions add {secret} {at} --data-file=FILE"

    def absent() -> str:
        """Return the command for a version that does not exist, by whether its secret does."""
        try:
            project.cloud.get(f"{_SECRETS}/projects/{owner}/secrets/{secret}")
        except NotFound:
            return f"gcloud secrets create {secret} {at} --data-file=FILE"
        return add

    def look() -> Finding:
        try:
            found = project.cloud.get(f"{_SECRETS}/{version}")
        except NotFound:
            says = f"not found ({use})"
            return Finding(subject, which, State.MISSING, says, absent())
        state = str(found.get("state"))
        if state != "ENABLED":
            says = f"is {state}; must be ENABLED"
            command = add
            if state == "DISABLED":
                command = f"gcloud secrets versions enable {number} --secret={secret} {at}"
            else:
                says += f"; add a version and change {field}"
            return Finding(subject, which, State.MISSING, says, command)
        return Finding(subject, which, State.MET, f"ENABLED; {label}")

    return judged(project, subject, which, look)
