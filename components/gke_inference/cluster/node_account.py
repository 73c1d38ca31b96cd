"""The node service account and its roles."""

import pulumi
from pulumi_gcp import projects, serviceaccount

NODE_ROLES = {
    "images": "roles/artifactregistry.reader",
    "node": "roles/container.defaultNodeServiceAccount",
}
"""All permissions of a node: pull images; write logs, metrics and its own state."""


def node_account(
    name: str,
    account_id: str,
    cluster_name: str,
    project: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> tuple[pulumi.Output[str], list[pulumi.Resource]]:
    """Build the account, and return its email and the grants that nodes need.

    Args:
        name: Logical name of the cluster.
        account_id: Account id.
        cluster_name: Name of the cluster, for people.
        project: Project of account and grants.
        opts: Options of a child.
    """
    account = serviceaccount.Account(
        f"{name}-nodes",
        account_id=account_id,
        description="What GKE nodes run as; workloads have identities of their own.",
        display_name=f"Nodes of {cluster_name}",
        project=project,
        opts=opts,
    )
    # Built from parts, since the account's own email is unknown until it exists.
    email = pulumi.Output.concat(account.account_id, "@", project, ".iam.gserviceaccount.com")
    behind = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[account]))
    grants: list[pulumi.Resource] = [
        projects.IAMMember(
            f"{name}-nodes-{role}",
            member=pulumi.Output.concat("serviceAccount:", email),
            project=project,
            role=path,
            opts=behind,
        )
        for role, path in NODE_ROLES.items()
    ]
    return email, grants
