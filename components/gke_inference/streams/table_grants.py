"""Grants that inserting into an existing table of BigQuery needs."""

import pulumi
from pulumi_gcp import bigquery

from gke_inference.base.inputs import under


def let_insert(
    parent: pulumi.Resource, name: str, table: str, member: pulumi.Input[str]
) -> list[pulumi.Resource]:
    """Grant a member the permissions of `tabledata.insertAll`, and return the grants.

    It needs `bigquery.datasets.get` on the dataset, which a role on a table does not include
    (docs.cloud.google.com/bigquery/docs/reference/rest/v2/tabledata/insertAll, 2026-11-26).

    Args:
        parent: Component that the grants belong to.
        name: Prefix of their logical names.
        table: Existing table, `PROJECT.DATASET.TABLE`.
        member: IAM member.
    """
    project, dataset, table_id = table.split(".")
    on_table = bigquery.IamMember(
        f"{name}-table-worker",
        dataset_id=dataset,
        member=member,
        project=project,
        role="roles/bigquery.dataEditor",
        table_id=table_id,
        opts=under(parent),
    )
    # DatasetIamMember would remove the authorized views of this dataset, which is not ours.
    on_dataset = bigquery.DatasetAccess(
        f"{name}-dataset-worker",
        dataset_id=dataset,
        iam_member=member,
        project=project,
        role="roles/bigquery.metadataViewer",
        opts=under(parent),
    )
    return [on_table, on_dataset]
