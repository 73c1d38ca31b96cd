"""Provider functions (`gcp:…:get…`) that programs call; others are rejected."""

from collections.abc import Callable
from typing import Any

from twin.providers.gcp.resources.identity import project_number
from twin.providers.gcp.resources.key_versions import KEY_VERSION, key_version
from twin.providers.gcp.resources.references import resolve
from twin.providers.gcp.resources.special_outputs import DEFAULT_VERSION
from twin.wire.property_values import CloudError, Json
from twin.world.regions import is_region, regions
from twin.world.store import Store


class FunctionError(Exception):
    """The call cannot be answered."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        """The invalid argument; empty if the error is not about an argument."""


_LOOKUPS = {
    "gcp:artifactregistry/getRepository:getRepository": (
        "gcp:artifactregistry/repository:Repository",
        "repositoryId",
    ),
    "gcp:compute/getAddress:getAddress": ("gcp:compute/address:Address", "name"),
    "gcp:compute/getGlobalAddress:getGlobalAddress": (
        "gcp:compute/globalAddress:GlobalAddress",
        "name",
    ),
    "gcp:compute/getNetwork:getNetwork": ("gcp:compute/network:Network", "name"),
    "gcp:compute/getSubnetwork:getSubnetwork": ("gcp:compute/subnetwork:Subnetwork", "name"),
    "gcp:container/getCluster:getCluster": ("gcp:container/cluster:Cluster", "name"),
    "gcp:dns/getManagedZone:getManagedZone": ("gcp:dns/managedZone:ManagedZone", "name"),
    "gcp:kms/getKMSKeyRing:getKMSKeyRing": ("gcp:kms/keyRing:KeyRing", "name"),
    "gcp:secretmanager/getSecret:getSecret": ("gcp:secretmanager/secret:Secret", "secretId"),
    "gcp:serviceaccount/getAccount:getAccount": (
        "gcp:serviceaccount/account:Account",
        "accountId",
    ),
    "gcp:storage/getBucket:getBucket": ("gcp:storage/bucket:Bucket", "name"),
}


def call(token: str, arguments: Json, configured: Json, store: Store) -> Json:
    """Return the result of a function.

    Args:
        token: function token, such as `gcp:organizations/getProject:getProject`.
        arguments: arguments in camelCase.
        configured: settings of the provider.
        store: store of the twin.

    Raises:
        FunctionError: the function is not supported, or an argument is missing.
        CloudError: Google would not find the resource.
    """
    if token == KEY_VERSION:
        return key_version(arguments, store)
    make = _FUNCTIONS.get(token)
    if make is not None:
        return make(arguments, configured)
    lookup = _LOOKUPS.get(token)
    if lookup is None:
        raise FunctionError("", f"function {token} is not supported by the twin")
    return _look_up(lookup[0], lookup[1], arguments, configured, store)


def _look_up(token: str, key: str, arguments: Json, configured: Json, store: Store) -> Json:
    name = str(arguments.get(key) or arguments.get("selfLink") or "")
    if not name:
        raise FunctionError(key, f"{key}: is required")
    project = str(arguments.get("project") or configured.get("project") or "")
    found = resolve((token,), name, arguments, project, store)
    if found is None and token.endswith(":Account"):
        email = name if "@" in name else f"{name}@{project}.iam.gserviceaccount.com"
        found = resolve((token,), email, arguments, project, store)
    if found is None:
        noun = token.rpartition(":")[2]
        raise CloudError(404, f"The {noun} '{name}' was not found", "notFound")
    return {**found.outputs, "id": found.id}


def _project(arguments: Json, configured: Json) -> str:
    found = arguments.get("projectId") or arguments.get("project") or configured.get("project")
    if not found:
        raise FunctionError("project", "project: is required; set it or gcp:project")
    return str(found).removeprefix("projects/")


def _get_project(arguments: Json, configured: Json) -> Json:
    project = _project(arguments, configured)
    labels: Json = {}
    return {
        "id": f"projects/{project}",
        "projectId": project,
        "name": project,
        "number": project_number(project),
        "labels": labels,
        "effectiveLabels": labels,
        "pulumiLabels": labels,
        "orgId": "",
        "folderId": "",
        "billingAccount": "",
        "autoCreateNetwork": False,
        "deletionPolicy": "PREVENT",
        "tags": {},
    }


def _client_config(_arguments: Json, configured: Json) -> Json:
    names = ("project", "region", "zone")
    found: Json = {name: configured.get(name) or "" for name in names}
    where = "/".join(f"{name}s/{found[name]}" for name in names)
    return {**found, "id": where, "accessToken": "twin", "defaultLabels": {}}


def _client_open_id(_arguments: Json, _configured: Json) -> Json:
    return {"id": "twin@example.com", "email": "twin@example.com"}


def _zones(arguments: Json, configured: Json) -> Json:
    region = str(arguments.get("region") or configured.get("region") or "")
    if not is_region(region):
        raise CloudError(400, f"Invalid value for field 'region': '{region}'", "invalid")
    project = _project(arguments, configured)
    where = f"projects/{project}/regions/{region}"
    return {"id": where, "names": list(regions()[region]), "project": project, "region": region}


def _versions(arguments: Json, configured: Json) -> Json:
    channels = ("RAPID", "REGULAR", "STABLE", "EXTENDED")
    location = str(arguments.get("location") or configured.get("zone") or "")
    return {
        "id": location,
        "location": location,
        "project": _project(arguments, configured),
        "defaultClusterVersion": DEFAULT_VERSION,
        "latestMasterVersion": DEFAULT_VERSION,
        "latestNodeVersion": DEFAULT_VERSION,
        "validMasterVersions": [DEFAULT_VERSION],
        "validNodeVersions": [DEFAULT_VERSION],
        "releaseChannelDefaultVersion": dict.fromkeys(channels, DEFAULT_VERSION),
        "releaseChannelLatestVersion": dict.fromkeys(channels, DEFAULT_VERSION),
    }


def _service_agent(template: str) -> Callable[[Json, Json], Json]:
    def make(arguments: Json, configured: Json) -> Json:
        project = _project(arguments, configured)
        email = template.format(number=project_number(project))
        return {
            "id": email,
            "email": email,
            "emailAddress": email,
            "member": f"serviceAccount:{email}",
            "project": project,
            "name": f"projects/{project}/serviceAccounts/{email}",
            "displayName": "",
            "uniqueId": project_number(email),
        }

    return make


_FUNCTIONS: dict[str, Callable[[Json, Json], dict[str, Any]]] = {
    "gcp:organizations/getProject:getProject": _get_project,
    "gcp:organizations/getClientConfig:getClientConfig": _client_config,
    "gcp:organizations/getClientOpenIdUserInfo:getClientOpenIdUserInfo": _client_open_id,
    "gcp:compute/getZones:getZones": _zones,
    "gcp:container/getEngineVersions:getEngineVersions": _versions,
    "gcp:compute/getDefaultServiceAccount:getDefaultServiceAccount": _service_agent(
        "{number}-compute@developer.gserviceaccount.com"
    ),
    "gcp:storage/getProjectServiceAccount:getProjectServiceAccount": _service_agent(
        "service-{number}@gs-project-accounts.iam.gserviceaccount.com"
    ),
}
