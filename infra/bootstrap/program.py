"""Resources of a prepared project: APIs, state bucket, keys and CI identities."""

from collections.abc import Sequence
from typing import Final

import pulumi
from pulumi_gcp import kms, projects, storage

from infra.bootstrap.ci import add_ci
from infra.bootstrap.roles import SERVICES
from infra.bootstrap.settings import KEY_RING, Project

BUCKET: Final = "state-bucket"
"""Name of the state bucket in the program."""
PREPARED: Final = "prepared"
"""Output with the settings of each stack, which the next run extends."""

_BUCKET_KEEPS: Final = (
    "autoclass",
    "cors",
    "customPlacementConfig",
    "defaultEventBasedHold",
    "enableObjectRetention",
    "encryption",
    "hierarchicalNamespace",
    "ipFilter",
    "labels",
    "lifecycleRules",
    "location",
    "logging",
    "requesterPays",
    "retentionPolicy",
    "rpo",
    "softDeletePolicy",
    "storageClass",
    "website",
)
_KEY_KEEPS: Final = (
    "destroyScheduledDuration",
    "importOnly",
    "labels",
    "rotationPeriod",
    "skipInitialVersionCreation",
    "versionTemplate",
)
"""Settings that cannot change on an existing bucket or key."""


def prepare(project: Project, *, is_undone: bool = False) -> None:
    """Declare the resources of a project.

    Args:
        project: Project and the stacks it is prepared for, at least one.
        is_undone: Whether the resources are about to be destroyed: the state bucket loses its
            protection and may be deleted with the state in it.
    """
    apis = _enable_services(project)
    bucket = storage.Bucket(
        BUCKET,
        name=project.bucket,
        project=project.id,
        location=project.stacks[0].location,
        versioning={"enabled": True},
        uniform_bucket_level_access=True,
        public_access_prevention="enforced",
        force_destroy=is_undone,
        opts=pulumi.ResourceOptions(
            depends_on=apis, ignore_changes=list(_BUCKET_KEEPS), protect=not is_undone
        ),
    )
    keys = _add_keys(project, apis)
    add_ci(project, bucket, keys, apis)
    pulumi.export(PREPARED, {each.stack: each.as_dict() for each in project.stacks})


def _enable_services(project: Project) -> Sequence[pulumi.Resource]:
    """Enable the APIs. They stay enabled after a destroy, as others may use them.

    A deployment also enables those of its stack, but an API can reject calls for minutes after it
    was enabled, so they are enabled here, too.
    """
    of_stacks = (name for each in project.stacks for name in each.services)
    return [
        projects.Service(
            f"api {name.split('.')[0]}",
            project=project.id,
            service=name,
            disable_on_destroy=False,
        )
        for name in dict.fromkeys((*SERVICES, *of_stacks))
    ]


def _add_keys(project: Project, apis: Sequence[pulumi.Resource]) -> dict[str, kms.CryptoKey]:
    """Return the key of each stack. Google never deletes key rings, so they and the keys stay."""
    rings: dict[str, kms.KeyRing] = {}
    for location in dict.fromkeys(each.location for each in project.stacks):
        rings[location] = kms.KeyRing(
            f"key-ring {location}",
            name=KEY_RING,
            project=project.id,
            location=location,
            opts=pulumi.ResourceOptions(depends_on=apis, retain_on_delete=True),
        )
    return {
        each.stack: kms.CryptoKey(
            f"key {each.stack}",
            name=f"stack-{each.stack}",
            key_ring=rings[each.location].id,
            purpose="ENCRYPT_DECRYPT",
            opts=pulumi.ResourceOptions(ignore_changes=list(_KEY_KEEPS), retain_on_delete=True),
        )
        for each in project.stacks
    }
