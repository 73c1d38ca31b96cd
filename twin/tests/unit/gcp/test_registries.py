"""Repositories of Artifact Registry: what Google accepts (rule cloud.registry)."""

from typing import Any

import pytest

from twin.tests.unit.gcp.conftest import Cloud, Refused
from twin.world.capacity import World

REPOSITORY = "gcp:artifactregistry/repository:Repository"
IDENTITY = "gcp:projects/serviceIdentity:ServiceIdentity"
GRANT = "gcp:secretmanager/secretIamMember:SecretIamMember"
SECRET = "projects/acme/secrets/hub"
VERSION = f"{SECRET}/versions/1"
AGENT = "serviceAccount:service-42@gcp-sa-artifactregistry.iam.gserviceaccount.com"
HUB = {"dockerRepository": {"publicRepository": "DOCKER_HUB"}}
LOGIN = {"usernamePasswordCredentials": {"username": "acme", "passwordSecretVersion": VERSION}}


def create(cloud: Cloud, remote: dict[str, Any] | None = None, **more: Any) -> Any:
    inputs = {"repositoryId": "up", "location": "us-central1", "format": "DOCKER", **more}
    if remote is not None:
        inputs |= {"mode": "REMOTE_REPOSITORY", "remoteRepositoryConfig": remote}
    return cloud.create(REPOSITORY, "up", inputs)


def custom(uri: str) -> dict[str, Any]:
    return {"dockerRepository": {"customRepository": {"uri": uri}}}


@pytest.mark.parametrize("remote", [None, HUB, custom("https://ghcr.io")])
def test_a_repository_with_the_upstream_that_its_mode_takes_is_made(
    cloud: Cloud, remote: dict[str, Any] | None
) -> None:
    create(cloud, remote)


@pytest.mark.parametrize(
    ("remote", "more", "message"),
    [
        (None, {"mode": "REMOTE_REPOSITORY"}, "if and only if mode is REMOTE_REPOSITORY"),
        (None, {"remoteRepositoryConfig": HUB}, "if and only if mode is REMOTE_REPOSITORY"),
        (None, {"repositoryId": "Up"}, "must be 1 to 63 of a-z"),
        ({"dockerRepository": {"customRepository": {}}}, {}, "must have an upstream"),
        (custom("http://ghcr.io"), {}, "must be https:// and a host"),
        (custom("https://ghcr.io/llm-d"), {}, "must be https:// and a host"),
        (HUB, {"dockerConfig": {"immutableTags": True}}, "immutable_tags must not be set"),
    ],
)
def test_an_upstream_that_cannot_be_is_refused(
    cloud: Cloud, remote: dict[str, Any] | None, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        create(cloud, remote, **more)


def test_a_password_must_exist_and_be_readable_by_the_agent(cloud: Cloud) -> None:
    remote = {**HUB, "upstreamCredentials": LOGIN}
    with pytest.raises(Refused, match=f"{VERSION}' .* was not found"):
        create(cloud, remote)
    World(secret_versions=(VERSION,)).save(cloud.paths.capacity_file)
    with pytest.raises(Refused, match=r"agent must have roles/secretmanager\.secretAccessor"):
        create(cloud, remote)
    role = {"role": "roles/secretmanager.secretAccessor", "member": AGENT}
    with pytest.raises(Refused, match="does not exist"):
        cloud.create(GRANT, "read", {"secretId": SECRET, "project": "acme", **role})
    identity = {"project": "acme", "service": "artifactregistry.googleapis.com"}
    cloud.create(IDENTITY, "agent", identity)
    other = "projects/acme-keys/secrets/hub"
    World(secret_versions=(VERSION, f"{other}/versions/1")).save(cloud.paths.capacity_file)
    cloud.create(GRANT, "other", {"secretId": other, "project": "acme-keys", **role})
    with pytest.raises(Refused, match=r"agent must have roles/secretmanager\.secretAccessor"):
        create(cloud, remote)
    cloud.create(IDENTITY, "theirs", {**identity, "project": "acme-keys"})
    theirs = {**role, "member": AGENT.replace("42", "43")}
    cloud.create(GRANT, "theirs", {"secretId": SECRET, "project": "acme", **theirs})
    with pytest.raises(Refused, match=r"agent must have roles/secretmanager\.secretAccessor"):
        create(cloud, remote)
    cloud.create(GRANT, "read", {"secretId": SECRET, "project": "acme", **role})
    create(cloud, remote)


def test_a_new_role_on_a_password_takes_a_while_to_take_effect(cloud: Cloud, later: Any) -> None:
    World(secret_versions=(VERSION,)).save(cloud.paths.capacity_file)
    cloud.create(IDENTITY, "a", {"project": "acme", "service": "artifactregistry.googleapis.com"})
    role = {"role": "roles/secretmanager.secretAccessor", "member": AGENT}
    granted = cloud.create(GRANT, "read", {"secretId": SECRET, "project": "acme", **role})
    remote = {**HUB, "upstreamCredentials": LOGIN}
    with pytest.raises(Refused, match=r"agent must have roles/secretmanager\.secretAccessor"):
        create(later(granted, 1.19), remote)
    create(later(granted, 1.21), remote)
