"""Identities of the programs of a stack: Kubernetes service accounts with access to buckets."""

from collections.abc import Mapping

from gke_inference.cluster.workload_identity import BucketAccessArgs, WorkloadIdentityArgs
from infra.plan.project import ProjectPlan


def identity_of(
    project: ProjectPlan,
    namespace: str,
    account: str,
    access: Mapping[str, BucketAccessArgs] | None = None,
) -> WorkloadIdentityArgs:
    """Return the arguments of the identity of a service account.

    Args:
        project: Project of the stack.
        namespace: Namespace of the service account.
        account: Name of the service account.
        access: Access to buckets, by the name of its grant; none by default.
    """
    args = WorkloadIdentityArgs(
        namespace=namespace,
        project=project.id,
        project_number=project.number,
        service_account_name=account,
    )
    if access:
        args["bucket_roles"] = dict(access)
    return args
