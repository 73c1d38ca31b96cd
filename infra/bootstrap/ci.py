"""Identities of CI jobs, which use Workload Identity Federation instead of keys."""

from collections.abc import Sequence
from typing import Final

import pulumi
from pulumi_gcp import iam, kms, projects, serviceaccount, storage

from infra.bootstrap.roles import (
    APIGEE_ROLES,
    ARMOR_ROLES,
    BACKEND_ROLES,
    CERTIFICATE_ROLES,
    CLIENT_ROLES,
    DEPLOY_ROLES,
    FILESTORE_ROLES,
    FLEET_ROLES,
    FRONT_ROLES,
    HOSTNAME_ROLES,
    IMAGE_ROLES,
    LUSTRE_ROLES,
    PEOPLE_ROLES,
    PERSONAL_ROLES,
    PIPELINE_ROLES,
    PLATFORM_ROLES,
    PREVIEW_ROLES,
    SECRET_ROLE,
    SERVING_PREVIEW_ROLES,
    SERVING_ROLES,
    STREAM_ROLES,
    TABLE_ROLES,
)
from infra.bootstrap.settings import ISSUERS, POOL, Ci, Project, StackSettings

_PROJECT: Final = "gke-inference"
"""Name of the Pulumi project."""


def add_ci(
    project: Project,
    bucket: storage.Bucket,
    keys: dict[str, kms.CryptoKey],
    apis: Sequence[pulumi.Resource],
) -> None:
    """Declare the identity pool, and the service accounts of each stack with a repository.

    Args:
        project: Project and its stacks.
        bucket: State bucket, which a preview locks.
        keys: Key of each stack's secrets, by stack.
        apis: APIs that must be on first.
    """
    repositories = [(each, each.ci) for each in project.stacks if each.ci is not None]
    if not repositories:
        return
    pool = iam.WorkloadIdentityPool(
        "identity-pool",
        project=project.id,
        workload_identity_pool_id=POOL,
        display_name="CI of gke-inference",
        opts=pulumi.ResourceOptions(
            depends_on=apis, ignore_changes=["description", "disabled", "displayName"]
        ),
    )
    providers: dict[str, pulumi.Resource] = {
        system: _add_provider(project, pool, [ci for _, ci in repositories if ci.system == system])
        for system in dict.fromkeys(ci.system for _, ci in repositories)
    }
    for settings, ci in repositories:
        trusted = project.principals("repository_ref", ci.deploying_reference)
        deploy = _Account(project, settings, "deploy", providers[ci.system])
        deploy.add(deploy_roles(settings), trusted, keys[settings.stack])
        if condition := project.secret_condition(settings):
            deploy.let_manage_secrets(condition)
        # Previews of any branch lock the state, but must not write anything else.
        trusted = project.principals("repository", ci.repository)
        preview = _Account(project, settings, "preview", providers[ci.system])
        is_serving = settings.layer == "serving"
        roles = SERVING_PREVIEW_ROLES if is_serving else PREVIEW_ROLES
        preview.add(roles, trusted, keys[settings.stack])
        if not is_serving:
            preview.let_lock(bucket)
            continue
        for account in (deploy, preview):
            account.let_keep_own_state(bucket)
            if settings.platform in keys:
                account.let_read_secrets(keys[settings.platform])


def deploy_roles(settings: StackSettings) -> tuple[str, ...]:
    """Return the project roles of the identity that deploys a stack, by its layer."""
    if settings.layer == "serving":
        return SERVING_ROLES
    roles = (
        *(PLATFORM_ROLES if settings.layer == "platform" else DEPLOY_ROLES),
        *(IMAGE_ROLES if settings.has_images else ()),
        *(HOSTNAME_ROLES if settings.has_records else ()),
        *(FRONT_ROLES if settings.has_front else ()),
        *(CERTIFICATE_ROLES if settings.has_certificates else ()),
        *(CLIENT_ROLES if settings.has_clients else ()),
        *(APIGEE_ROLES if settings.has_apigee_apps else ()),
        *(PEOPLE_ROLES if settings.has_people else ()),
        *(FLEET_ROLES if settings.has_fleet else ()),
        *(ARMOR_ROLES if settings.has_armor else ()),
        *(BACKEND_ROLES if settings.has_backends or settings.has_front_router else ()),
        *(PERSONAL_ROLES if settings.has_personal_images else ()),
        *(STREAM_ROLES if settings.has_streams else ()),
        *(PIPELINE_ROLES if settings.has_pipelines else ()),
        *(TABLE_ROLES if settings.has_tables else ()),
        *(FILESTORE_ROLES if settings.has_filestore else ()),
        *(LUSTRE_ROLES if settings.has_lustre else ()),
    )
    return tuple(dict.fromkeys(roles))  # each grant is one resource


def _add_provider(
    project: Project, pool: iam.WorkloadIdentityPool, repositories: Sequence[Ci]
) -> pulumi.Resource:
    """Declare the provider of a CI system, which accepts tokens of these repositories only."""
    issuer = ISSUERS[repositories[0].system]
    names = sorted({ci.repository for ci in repositories})
    return iam.WorkloadIdentityPoolProvider(
        f"identity-provider {issuer.name}",
        project=project.id,
        workload_identity_pool_id=pool.workload_identity_pool_id,
        workload_identity_pool_provider_id=issuer.name,
        attribute_condition=" || ".join(f"{issuer.repository} == '{name}'" for name in names),
        attribute_mapping=issuer.mapping,
        oidc={"issuer_uri": issuer.uri},
        opts=pulumi.ResourceOptions(ignore_changes=["description", "disabled", "displayName"]),
    )


class _Account:
    """A service account of a stack's CI, with its role bindings."""

    def __init__(
        self, project: Project, settings: StackSettings, role: str, after: pulumi.Resource
    ) -> None:
        self._project, self._settings = project, settings
        self._prefix = f"{role} {settings.stack}"
        self._account = serviceaccount.Account(
            self._prefix,
            project=project.id,
            account_id=settings.account_id(role),
            display_name=f"CI: {role} of stack {settings.stack}",
            opts=pulumi.ResourceOptions(
                depends_on=[after], ignore_changes=["description", "disabled", "displayName"]
            ),
        )

    def add(self, roles: Sequence[str], trusted: str, key: kms.CryptoKey) -> None:
        """Grant roles on the project and key, and let CI jobs impersonate the account."""
        for role in roles:
            projects.IAMMember(
                self._name(role), project=self._project.id, role=role, member=self._account.member
            )
        role = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
        kms.CryptoKeyIAMMember(
            self._name(role), crypto_key_id=key.id, role=role, member=self._account.member
        )
        role = "roles/iam.workloadIdentityUser"
        serviceaccount.IAMMember(
            self._name(role), service_account_id=self._account.name, role=role, member=trusted
        )

    def let_manage_secrets(self, condition: str) -> None:
        """Let the account create, change and share some secrets, which need not exist yet."""
        projects.IAMMember(
            f"{self._prefix} secrets",
            project=self._project.id,
            condition={
                "expression": condition,
                "title": f"secrets of stack {self._settings.stack}",
            },
            role=SECRET_ROLE,
            member=self._account.member,
        )

    def let_lock(self, bucket: storage.Bucket) -> None:
        """Let the account write to the state bucket."""
        role = "roles/storage.objectUser"
        storage.BucketIAMMember(
            self._name(role), bucket=bucket.name, role=role, member=self._account.member
        )

    def let_keep_own_state(self, bucket: storage.Bucket) -> None:
        """Let the account read every state, for references, and write only that of its stack.

        Name conditions do not apply to list requests, so read access has none.
        """
        role = "roles/storage.objectViewer"
        storage.BucketIAMMember(
            self._name(role), bucket=bucket.name, role=role, member=self._account.member
        )
        role = "roles/storage.objectUser"
        storage.BucketIAMMember(
            self._name(role),
            bucket=bucket.name,
            condition={
                "expression": own_state(self._project.bucket, self._settings.pulumi_stack),
                "title": f"state of {self._settings.pulumi_stack}",
            },
            role=role,
            member=self._account.member,
        )

    def let_read_secrets(self, key: kms.CryptoKey) -> None:
        """Let the account decrypt a platform's state."""
        role = "roles/cloudkms.cryptoKeyDecrypter"
        kms.CryptoKeyIAMMember(
            self._name(role), crypto_key_id=key.id, role=role, member=self._account.member
        )

    def _name(self, role: str) -> str:
        return f"{self._prefix} {role.removeprefix('roles/')}"


def own_state(bucket: str, stack: str) -> str:
    """Return the IAM condition for objects that belong to the state of a stack.

    Folders: github.com/pulumi/pulumi, pkg/backend/diy (v3.250.0).
    """
    places = (
        f"stacks/{_PROJECT}/{stack}.",
        f"backups/{_PROJECT}/{stack}/",
        f"history/{_PROJECT}/{stack}/",
        f"locks/organization/{_PROJECT}/{stack}/",
    )
    start = f"projects/_/buckets/{bucket}/objects/.pulumi/"
    return " || ".join(f"resource.name.startsWith('{start}{place}')" for place in places)
