"""A Kubernetes service account with limited access to Google Cloud."""

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_gcp import projects, secretmanager, storage

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under

ACCESS = {"read": "roles/storage.objectViewer", "write": "roles/storage.objectUser"}
"""Roles for each `access` of a bucket. None can change the bucket or its policy."""

_TOO_WIDE = ("roles/owner", "roles/editor", "roles/viewer")


class BucketAccessArgs(TypedDict):
    """Access to one bucket."""

    access: Literal["read", "write"]
    """What the pods may do with its objects."""
    bucket: pulumi.Input[str]
    """Name of the bucket: `ModelBucket.bucket_name`."""


class WorkloadIdentityArgs(TypedDict):
    """Inputs of `WorkloadIdentity`."""

    namespace: str
    """Namespace of the service account."""
    project: pulumi.Input[str]
    """Project of the cluster, whose workload pool contains the service account."""
    project_number: pulumi.Input[str]
    """Number of that project."""
    service_account_name: str
    """Name of the Kubernetes service account."""
    bucket_roles: NotRequired[dict[str, BucketAccessArgs]]
    """Buckets it may use, each under a name of your choice. Default: none."""
    project_roles: NotRequired[list[str]]
    """Project-level roles, such as `roles/monitoring.viewer`. Owner, editor and viewer are not
    allowed. Default: none."""
    secrets: NotRequired[list[str]]
    """IDs of Secret Manager secrets that it may read. Default: none."""


def grant_buckets(
    name: str,
    roles: Mapping[str, BucketAccessArgs],
    member: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> None:
    """Grant an IAM member access to buckets."""
    for title, entry in sorted(roles.items()):
        storage.BucketIAMMember(
            f"{name}-bucket-{title}",
            bucket=entry["bucket"],
            member=member,
            role=ACCESS[entry["access"]],
            opts=opts,
        )


class WorkloadIdentity(pulumi.ComponentResource):
    """A service account whose pods authenticate to Google Cloud with their own identity.

    Roles are granted to the account's `principal://`: there is no Google service account, key or
    annotation. Pass the cluster's Kubernetes provider in `opts`.
    """

    principal: pulumi.Output[str]
    """IAM member, for additional roles."""
    service_account_name: pulumi.Output[str]
    """Name of the Kubernetes service account."""

    def __init__(
        self, name: str, args: WorkloadIdentityArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:WorkloadIdentity", name, {}, opts)
        args = checked(WorkloadIdentityArgs, args)
        namespace = name_of(args, "namespace", "namespace")
        account_name = name_of(args, "service_account_name", "namespace")
        _check_roles(args)
        member = principal(args["project"], args["project_number"], namespace, account_name)
        account = kubernetes.core.v1.ServiceAccount(
            name,
            # Google credentials come from GKE's metadata server, not from this token.
            automount_service_account_token=False,
            metadata={"name": account_name, "namespace": namespace},
            opts=under(self),
        )
        self._build_roles(name, args, member)
        self.principal = member
        self.service_account_name = account.metadata.apply(lambda _: account_name)
        self.register_outputs(
            {"principal": self.principal, "serviceAccountName": self.service_account_name}
        )

    def _build_roles(
        self, name: str, args: WorkloadIdentityArgs, member: pulumi.Output[str]
    ) -> None:
        grant_buckets(name, args.get("bucket_roles") or {}, member, under(self))
        for role in sorted(args.get("project_roles") or []):
            projects.IAMMember(
                f"{name}-project-{role.rpartition('/')[2].replace('.', '-')}",
                member=member,
                project=args["project"],
                role=role,
                opts=under(self),
            )
        for secret in sorted(args.get("secrets") or []):
            secretmanager.SecretIamMember(
                f"{name}-secret-{secret}",
                member=member,
                project=args["project"],
                role="roles/secretmanager.secretAccessor",
                secret_id=secret,
                opts=under(self),
            )


def principal(
    project: pulumi.Input[str],
    project_number: pulumi.Input[str],
    namespace: str,
    service_account: str,
) -> pulumi.Output[str]:
    """Return the IAM member of a Kubernetes service account.

    cloud.google.com/kubernetes-engine/docs/how-to/workload-identity. All clusters of a project have
    the same workload pool, so the same namespace and name are the same principal in all of them.
    """
    subject = f"subject/ns/{namespace}/sa/{service_account}"
    return _member("principal", project, project_number, subject)


def namespace_principals(
    project: pulumi.Input[str], project_number: pulumi.Input[str], namespace: str
) -> pulumi.Output[str]:
    """Return the IAM member for all service accounts of a namespace, in every cluster."""
    return _member("principalSet", project, project_number, f"namespace/{namespace}")


def _member(
    kind: str, project: pulumi.Input[str], project_number: pulumi.Input[str], whom: str
) -> pulumi.Output[str]:
    return pulumi.Output.concat(
        f"{kind}://iam.googleapis.com/projects/",
        project_number,
        "/locations/global/workloadIdentityPools/",
        project,
        f".svc.id.goog/{whom}",
    )


def _check_roles(args: WorkloadIdentityArgs) -> None:
    for role in args.get("project_roles") or []:
        if role in _TOO_WIDE or not role.startswith(("roles/", "projects/", "organizations/")):
            raise pulumi.InputPropertyError(
                "projectRoles", f"must be roles narrower than {', '.join(_TOO_WIDE)}, got {role!r}"
            )
