"""The ID of the backend service that people sign in to, which Google chooses during `up`."""

from collections.abc import Iterator
from typing import Final

from infra.plan.clients import people_of
from infra.plan.names import Names
from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.shared.google_cloud import NotFound

_SERVICES: Final = "compute.googleapis.com/compute/v1/projects/{project}/global/backendServices"


def sign_in(project: Project) -> Iterator[Finding]:
    """Yield whether the stack has the ID that the tokens of people are signed for.

    JSON has it as a string (docs.cloud.google.com/compute/docs/reference/rest/v1/backendServices).
    """
    people = people_of(project.plan.platform)
    if people is None:
        return
    subject, name = "backend service of people", f"{Names(project.plan.platform).front()}-people"

    def look() -> Finding:
        field, given = "clients.people.backend_service", people.backend_service
        try:
            found = project.cloud.get(f"{_SERVICES.format(project=project.id)}/{name}")
        except NotFound:
            says = f"`up` creates it; then set {field} to its ID, which this command prints"
            return Finding(subject, name, State.LATER, says)
        identifier = str(found.get("id", ""))
        if not identifier:
            return Finding(subject, name, State.UNSEEN, "the response has no ID")
        if given != identifier:
            got = "none" if given is None else repr(given)
            says = f"{field}: must be {identifier!r}, got {got}; people get 401"
            return Finding(subject, name, State.MISSING, says)
        return Finding(subject, name, State.MET, "the stack has its ID")

    yield judged(project, subject, name, look)
