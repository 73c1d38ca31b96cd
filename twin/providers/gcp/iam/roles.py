"""Permissions of predefined roles: those that pods use."""

from typing import Final

_OBJECT_WRITES: Final = (
    "storage.objects.create",
    "storage.objects.delete",
    "storage.objects.update",
)
_OBJECT_READS: Final = ("storage.objects.get", "storage.objects.list")
_BUCKETS: Final = tuple(
    f"storage.buckets.{verb}" for verb in ("create", "delete", "get", "list", "update")
)
_SECRET_READS: Final = ("secretmanager.versions.get", "secretmanager.versions.list")
_SECRET_CHANGES: Final = tuple(
    f"secretmanager.versions.{verb}" for verb in ("destroy", "disable", "enable")
)
_ADD_SECRET: Final = "secretmanager.versions.add"  # noqa: S105 - a permission
_READ_SECRET: Final = "secretmanager.versions.access"  # noqa: S105 - a permission
_CONSUME: Final = "pubsub.subscriptions.consume"
_PUSH: Final = "artifactregistry.repositories.uploadArtifacts"
_PUBLISH: Final = "pubsub.topics.publish"
_PUBSUB_READS: Final = ("pubsub.subscriptions.get", "pubsub.topics.get")
_PUBSUB_EDITS: Final = (_CONSUME, _PUBLISH, *_PUBSUB_READS)

ROLES: Final[dict[str, frozenset[str]]] = {
    role: frozenset(permissions)
    for role, permissions in {
        "roles/artifactregistry.writer": (_PUSH,),
        "roles/editor": (*_PUBSUB_EDITS, *_SECRET_READS, *_SECRET_CHANGES, _ADD_SECRET),
        "roles/owner": (
            *_PUBSUB_EDITS,
            *_SECRET_READS,
            *_SECRET_CHANGES,
            _ADD_SECRET,
            _READ_SECRET,
        ),
        "roles/pubsub.admin": _PUBSUB_EDITS,
        "roles/pubsub.editor": _PUBSUB_EDITS,
        "roles/pubsub.publisher": (_PUBLISH,),
        "roles/pubsub.subscriber": (_CONSUME,),
        "roles/pubsub.viewer": _PUBSUB_READS,
        "roles/secretmanager.admin": (
            *_SECRET_READS,
            *_SECRET_CHANGES,
            _ADD_SECRET,
            _READ_SECRET,
        ),
        "roles/secretmanager.secretAccessor": (_READ_SECRET,),
        "roles/secretmanager.secretVersionAdder": (_ADD_SECRET,),
        "roles/secretmanager.secretVersionManager": (
            *_SECRET_READS,
            *_SECRET_CHANGES,
            _ADD_SECRET,
        ),
        "roles/secretmanager.viewer": _SECRET_READS,
        "roles/storage.admin": (*_BUCKETS, *_OBJECT_READS, *_OBJECT_WRITES),
        "roles/storage.legacyBucketOwner": (
            "storage.buckets.get",
            "storage.buckets.update",
            "storage.objects.create",
            "storage.objects.delete",
            "storage.objects.list",
        ),
        "roles/storage.legacyBucketReader": ("storage.buckets.get", "storage.objects.list"),
        "roles/storage.legacyBucketWriter": (
            "storage.buckets.get",
            "storage.objects.create",
            "storage.objects.delete",
            "storage.objects.list",
        ),
        "roles/storage.legacyObjectOwner": ("storage.objects.get", "storage.objects.update"),
        "roles/storage.legacyObjectReader": ("storage.objects.get",),
        "roles/storage.objectAdmin": (*_OBJECT_READS, *_OBJECT_WRITES),
        "roles/storage.objectCreator": ("storage.objects.create",),
        "roles/storage.objectUser": (*_OBJECT_READS, *_OBJECT_WRITES),
        "roles/storage.objectViewer": _OBJECT_READS,
        "roles/viewer": (*_PUBSUB_READS, *_SECRET_READS),
    }.items()
}
"""Permissions by role (rule cloud.pod-access has the sources).

Basic roles reach objects only through the access lists of a bucket, which the twin does not have.
"""
