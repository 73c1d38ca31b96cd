"""Artifact Registry: Google's checks for repositories (rule cloud.registry)."""

import re
from collections.abc import Iterator
from typing import Final

from twin.providers.gcp.resources.project_numbers import is_number_of
from twin.providers.gcp.schema import Resource
from twin.wire.property_values import CloudError, Json, as_object, get_path, is_unknown
from twin.world.image_names import REMOTE, custom_upstream
from twin.world.store import Store

CREDENTIAL_PATH: Final = (
    "remoteRepositoryConfig.upstreamCredentials.usernamePasswordCredentials.passwordSecretVersion"
)
_GRANT: Final = "gcp:secretmanager/secretIamMember:SecretIamMember"
_ACCESSOR: Final = "roles/secretmanager.secretAccessor"
_ID: Final = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_UPSTREAM: Final = re.compile(r"https://([a-z0-9-]+\.)+[a-z]{2,}")
_SECRET_VERSION: Final = re.compile(
    r"(?P<path>projects/[^/]+/secrets/[^/]+)/versions/([1-9]\d*|latest)"
)
_AGENT: Final = re.compile(
    r"serviceAccount:service-(?P<number>\d+)@gcp-sa-artifactregistry\.iam\.gserviceaccount\.com"
)


def check_repository(values: Json) -> None:
    """Reject a repository that Google would reject.

    Raises:
        CloudError: the first error.
    """
    name = str(values.get("repositoryId"))
    if not _ID.fullmatch(name):
        raise _refused(f"repository_id must be 1 to 63 of a-z, 0-9 and -, got {name!r}")
    remote = as_object(values.get("remoteRepositoryConfig"))
    if (values.get("mode") == REMOTE) != (remote is not None):
        raise _refused(f"remote_repository_config must be set if and only if mode is {REMOTE}")
    if remote is not None:
        for problem in _remote_problems(values, remote):
            raise _refused(problem)


def _remote_problems(values: Json, remote: Json) -> Iterator[str]:
    if values.get("format") != "DOCKER":
        return
    custom = custom_upstream(remote)
    is_hub = get_path(remote, "dockerRepository.publicRepository") == "DOCKER_HUB"
    if not custom and not is_hub:
        yield "a Docker remote repository must have an upstream"
    if custom and not _UPSTREAM.fullmatch(custom):
        yield f"the upstream must be https:// and a host, got {custom!r}"
    if get_path(values, "dockerConfig.immutableTags"):
        yield "immutable_tags must not be set for a remote repository"


def check_credentials(
    known: Resource, values: Json, project: str, store: Store, since: float
) -> None:
    """Reject a repository whose service agent cannot read the password for its upstream.

    Args:
        known: Type of the resource.
        values: Its inputs.
        project: Its project.
        store: Resources of all stacks.
        since: Latest creation of a grant that is in effect, in seconds since the epoch.

    Raises:
        CloudError: The agent cannot read it (rules cloud.registry, cloud.iam.propagation).
    """
    if known.kind != "artifactregistry/repository":
        return
    version = get_path(values, CREDENTIAL_PATH)
    if not version or is_unknown(version):
        return
    found = _SECRET_VERSION.fullmatch(str(version))
    if found is None:
        raise _refused(f"password_secret_version must be a secret version, got {version!r}")
    readable = any(
        _secret_path(each.inputs) == found["path"]
        and each.inputs.get("role") == _ACCESSOR
        and each.created <= since
        and (agent := _AGENT.fullmatch(str(each.inputs.get("member")))) is not None
        and is_number_of(project, agent["number"], store)
        for each in store.find(_GRANT)
    )
    if not readable:
        raise CloudError(
            400,
            f"The Artifact Registry service agent must have {_ACCESSOR} on {version}.",
            "failedPrecondition",
        )


def _secret_path(grant: Json) -> str:
    """Return the full name of a grant's secret, which may be given by its ID and project."""
    secret = str(grant.get("secretId"))
    return secret if "/" in secret else f"projects/{grant.get('project')}/secrets/{secret}"


def _refused(message: str) -> CloudError:
    return CloudError(400, f"Invalid value: {message}.", "invalid")
