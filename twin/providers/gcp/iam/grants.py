"""Which permissions the grants of stacks give a caller."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from twin.providers.gcp.iam.principals import Principal
from twin.providers.gcp.iam.roles import ROLES
from twin.wire.property_values import last_segment
from twin.world.store import Record, Store

_ON_PROJECT: Final = ("gcp:projects/iAMMember:IAMMember", "gcp:projects/iAMBinding:IAMBinding")
_CUSTOM_ROLE: Final = "gcp:projects/iAMCustomRole:IAMCustomRole"


@dataclass(frozen=True)
class Kind:
    """A kind of resource that has grants of its own."""

    tokens: tuple[str, ...]
    """Types of its grants."""
    field: str
    """Input of a grant that names the resource."""
    resource: str
    """Type of the resource."""


BUCKET: Final = Kind(
    (
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        "gcp:storage/bucketIAMBinding:BucketIAMBinding",
    ),
    "bucket",
    "gcp:storage/bucket:Bucket",
)
REPOSITORY: Final = Kind(
    (
        "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
        "gcp:artifactregistry/repositoryIamBinding:RepositoryIamBinding",
    ),
    "repository",
    "gcp:artifactregistry/repository:Repository",
)
SECRET: Final = Kind(
    (
        "gcp:secretmanager/secretIamMember:SecretIamMember",
        "gcp:secretmanager/secretIamBinding:SecretIamBinding",
    ),
    "secretId",
    "gcp:secretmanager/secret:Secret",
)
SUBSCRIPTION: Final = Kind(
    (
        "gcp:pubsub/subscriptionIAMMember:SubscriptionIAMMember",
        "gcp:pubsub/subscriptionIAMBinding:SubscriptionIAMBinding",
    ),
    "subscription",
    "gcp:pubsub/subscription:Subscription",
)
TOPIC: Final = Kind(
    (
        "gcp:pubsub/topicIAMMember:TopicIAMMember",
        "gcp:pubsub/topicIAMBinding:TopicIAMBinding",
    ),
    "topic",
    "gcp:pubsub/topic:Topic",
)


def allows(store: Store, caller: Principal, permission: str, kind: Kind, name: str) -> bool:
    """Return whether a caller has a permission on a resource or on its project.

    A grant with a condition does not count, because the twin does not evaluate conditions.

    Args:
        store: Store of the twin.
        caller: The caller.
        permission: Permission, such as `storage.objects.get`.
        kind: Kind of the resource.
        name: Name of a bucket, or `projects/P/COLLECTION/NAME`.
    """
    if any(_gives(store, each, caller, permission) for each in _on(store, kind, name)):
        return True
    project = name.split("/")[1] if "/" in name else _project_of_bucket(store, caller, name)
    return any(
        _gives(store, each, caller, permission)
        for each in _found(store, _ON_PROJECT)
        if each.inputs.get("project") == project
    )


class Permissions:
    """Answers of `allows` for many requests, cached until the store changes."""

    def __init__(self, file: Path) -> None:
        self._store = Store(file)
        self._files = (file, file.with_name(f"{file.name}-wal"))
        self._known: dict[tuple[str, ...], tuple[object, bool]] = {}

    def allows(self, caller: Principal, permission: str, kind: Kind, name: str) -> bool:
        """Return whether a caller has a permission, as `allows` does."""
        state = [_state(file) for file in self._files]
        key = (caller.path, permission, kind.field, name)
        at, found = self._known.get(key, (None, False))
        if at != state:
            found = allows(self._store, caller, permission, kind, name)
            self._known[key] = (state, found)
        return found


def _state(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


def _found(store: Store, tokens: tuple[str, ...]) -> Iterator[Record]:
    return (each for token in tokens for each in store.find(token))


def _on(store: Store, kind: Kind, name: str) -> Iterator[Record]:
    """Yield the grants on one resource, whose name can be short in a grant."""
    for each in _found(store, kind.tokens):
        named = str(each.inputs.get(kind.field))
        if named == name:
            yield each
        elif "/" in name and "/" not in named and named == last_segment(name):
            given = each.inputs.get("project") or each.outputs.get("project") or each.project
            if given == name.split("/")[1]:
                yield each


def _project_of_bucket(store: Store, caller: Principal, name: str) -> str:
    """Return a bucket's project; the caller's for a bucket outside of stacks."""
    found = next((each for each in store.find(BUCKET.resource) if each.name == name), None)
    return caller.project if found is None else found.project


def _gives(store: Store, grant: Record, caller: Principal, permission: str) -> bool:
    if grant.status == "creating" or grant.inputs.get("condition"):
        return False
    role = str(grant.inputs.get("role"))
    if permission not in (ROLES[role] if role in ROLES else _of_custom(store, role)):
        return False
    several: list[Any] = grant.inputs.get("members") or []
    return any(map(caller.is_named_by, [grant.inputs.get("member"), *several]))


def _of_custom(store: Store, role: str) -> list[Any]:
    found = store.get(_CUSTOM_ROLE, role)
    return [] if found is None else found.inputs.get("permissions") or []
