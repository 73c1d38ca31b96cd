"""Service agents: accounts of Google's services, which exist in a project once created."""

import re
from typing import Final

from twin.providers.gcp.resources.project_numbers import is_number_of, learn
from twin.wire.property_values import CloudError, Json
from twin.world.store import Store

_IDENTITY: Final = "gcp:projects/serviceIdentity:ServiceIdentity"
_SINK: Final = "gcp:logging/projectSink:ProjectSink"
_AGENTS: Final = {
    "artifactregistry.googleapis.com": "gcp-sa-artifactregistry",
    "multiclusteringress.googleapis.com": "gcp-sa-multiclusteringress",
    "networkservices.googleapis.com": "gcp-sa-dep",
    "pubsub.googleapis.com": "gcp-sa-pubsub",
}
"""Domain of each service's agent, for the services that stacks use."""
_MEMBER: Final = re.compile(
    r"serviceAccount:(?P<email>service-(?P<number>\d+)@(?P<domain>gcp-sa-[a-z-]+)"
    r"\.iam\.gserviceaccount\.com)"
)


def check_agent(member: str, store: Store, since: float) -> None:
    """Reject a role for a service agent that does not exist.

    Rules: cloud.service-agents, cloud.project-numbers, cloud.iam.propagation.

    Args:
        member: IAM member.
        store: Resources of all stacks.
        since: Latest creation of an agent that IAM knows, in seconds since the epoch.

    Raises:
        CloudError: Error in Google's wording.
    """
    found = _MEMBER.fullmatch(member)
    if found is None:
        return
    if found["domain"] == "gcp-sa-logging":
        exists = bool(store.find(_SINK))
    else:
        owners = {
            each.project
            for each in store.find(_IDENTITY)
            if _AGENTS.get(str(each.inputs.get("service"))) == found["domain"]
            and is_number_of(each.project, found["number"], store)
            and each.created <= since
        }
        exists = bool(owners)
        if len(owners) == 1:
            learn(owners.pop(), found["number"], store)
    if not exists:
        raise CloudError(400, f"Service account {found['email']} does not exist.", "badRequest")


def outputs(values: Json, number: str) -> Json:
    """Return the agent of a service, if the twin knows its name."""
    domain = _AGENTS.get(str(values["service"]))
    if domain is None:
        return {}
    email = f"service-{number}@{domain}.iam.gserviceaccount.com"
    return {"email": email, "member": f"serviceAccount:{email}"}
