"""Finds existing resources of a project, which the engine adopts instead of creating them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version
from typing import Any, Final

from infra.bootstrap.program import BUCKET
from infra.bootstrap.settings import Project
from scripts.shared.google_cloud import Cloud, NotFound, ServiceDisabled

VERSION: Final = version("pulumi_gcp")
"""Version of the provider for adoption, the same as the program's."""
_IAM: Final = "iam.googleapis.com/v1"
_KMS: Final = "cloudkms.googleapis.com/v1"


class Presence(Enum):
    """Whether a resource is in a project."""

    ABSENT = "absent"
    DELETED = "deleted"
    """Deleted less than 30 days ago: its name is taken, and it can be restored."""
    PRESENT = "present"


@dataclass(frozen=True)
class Candidate:
    """A resource of the program that may already exist in a project."""

    type: str
    name: str
    """In the program."""
    id: str
    """In the provider."""
    url: str

    def presence(self, cloud: Cloud) -> Presence:
        """Return whether the project has the resource.

        Raises:
            scripts.shared.google_cloud.CloudError: Google refused.
        """
        try:
            found = cloud.get(self.url)
        except (NotFound, ServiceDisabled):
            return Presence.ABSENT
        return Presence.DELETED if found.get("state") == "DELETED" else Presence.PRESENT

    def restore(self, cloud: Cloud) -> None:
        """Restore a resource that was deleted.

        Raises:
            scripts.shared.google_cloud.CloudError: Google refused.
        """
        operation = cloud.post(f"{self.url}:undelete", {})
        if "/operations/" in str(operation.get("name", "")):
            cloud.wait("iam.googleapis.com", operation)

    def as_import(self) -> Any:
        """Return the resource as the engine imports it."""
        return {"type": self.type, "name": self.name, "id": self.id, "version": VERSION}


def candidates(project: Project) -> Iterator[Candidate]:
    """Yield the resources that cannot be created twice, unlike APIs and grants."""
    url = f"storage.googleapis.com/storage/v1/b/{project.bucket}"
    yield Candidate("gcp:storage/bucket:Bucket", BUCKET, project.bucket, url)
    for location in dict.fromkeys(each.location for each in project.stacks):
        ring = project.key_ring(location)
        yield Candidate("gcp:kms/keyRing:KeyRing", f"key-ring {location}", ring, f"{_KMS}/{ring}")
    for each in project.stacks:
        key = project.key(each)
        yield Candidate("gcp:kms/cryptoKey:CryptoKey", f"key {each.stack}", key, f"{_KMS}/{key}")
    yield from _identities(project)


def _identities(project: Project) -> Iterator[Candidate]:
    repositories = [(each, each.ci) for each in project.stacks if each.ci is not None]
    if repositories:
        yield Candidate(
            "gcp:iam/workloadIdentityPool:WorkloadIdentityPool",
            "identity-pool",
            project.pool,
            f"{_IAM}/{project.pool}",
        )
    for ci in {ci.system: ci for _, ci in repositories}.values():
        provider = project.provider(ci)
        yield Candidate(
            "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider",
            f"identity-provider {ci.system}",
            provider,
            f"{_IAM}/{provider}",
        )
    for each, _ in repositories:
        for role in ("deploy", "preview"):
            account = f"projects/{project.id}/serviceAccounts/{project.account(each, role)}"
            yield Candidate(
                "gcp:serviceaccount/account:Account",
                f"{role} {each.stack}",
                account,
                f"{_IAM}/{account}",
            )


@dataclass(frozen=True)
class Existing:
    """Resources of the program that exist in a project but not in the state."""

    unknown: tuple[Candidate, ...]
    """In the project, and not in the state."""
    deleted: tuple[Candidate, ...]
    """Deleted, to be restored."""


def look_up(project: Project, cloud: Cloud, deployment: Mapping[str, Any]) -> Existing:
    """Return the existing and the restorable resources of a project; change nothing.

    Args:
        project: Project and its stacks.
        cloud: Google's APIs.
        deployment: The state.

    Raises:
        scripts.shared.google_cloud.CloudError: Google refused.
    """
    resources: list[dict[str, Any]] = deployment.get("resources") or []
    in_state = {(each["type"], str(each["urn"]).rpartition("::")[2]) for each in resources}
    unknown: list[Candidate] = []
    deleted: list[Candidate] = []
    for candidate in candidates(project):
        is_in_state = (candidate.type, candidate.name) in in_state
        if is_in_state and not candidate.type.startswith("gcp:iam/"):
            continue
        presence = candidate.presence(cloud)
        if presence is Presence.DELETED:
            deleted.append(candidate)
        elif presence is Presence.PRESENT and not is_in_state:
            unknown.append(candidate)
    return Existing(tuple(unknown), tuple(deleted))
