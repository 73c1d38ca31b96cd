"""Grants on tables and datasets: what Google rejects, and who may insert (bigquery.access)."""

from collections.abc import Callable, Iterator
from typing import Final

from twin.providers.gcp.schema import Resource
from twin.wire.property_values import CloudError, Json, last_segment
from twin.world.capacity import World
from twin.world.store import Store
from twin.world.tables import GivenTable

ON_TABLE: Final = "gcp:bigquery/iamMember:IamMember"
ON_DATASET: Final = "gcp:bigquery/datasetAccess:DatasetAccess"
_ON_PROJECT: Final = "gcp:projects/iAMMember:IAMMember"
_WRITERS: Final = (
    "roles/bigquery.admin",
    "roles/bigquery.dataEditor",
    "roles/bigquery.dataOwner",
    "roles/editor",
    "roles/owner",
)
"""Roles with `bigquery.tables.get` and `bigquery.tables.updateData`."""
_SEE_DATASETS: Final = (
    *_WRITERS,
    "roles/bigquery.dataViewer",
    "roles/bigquery.metadataViewer",
    "roles/bigquery.user",
    "roles/viewer",
)
"""Roles with `bigquery.datasets.get`, on a dataset or its project."""
_ENTITIES: Final = {
    "domain": "domain:",
    "groupByEmail": "group:",
    "iamMember": "",
    "specialGroup": "specialGroup:",
    "userByEmail": "",
}
"""Inputs of an access entry of a dataset that name its member, and the prefix of IAM for each."""


def check_grant(known: Resource, inputs: Json, project: str, world: Callable[[], World]) -> None:
    """Reject a grant on a table or dataset that Google or its provider would reject.

    Args:
        known: Type of the grant.
        inputs: Its inputs.
        project: Its project.
        world: Returns what exists outside stacks.

    Raises:
        CloudError: The first error.
    """
    if known.token not in (ON_TABLE, ON_DATASET):
        return
    dataset = f"projects/{project}/datasets/{inputs.get('datasetId')}"
    tables = [each for each in world().tables if each.dataset == dataset]
    name = dataset.replace("projects/", "", 1).replace("/datasets/", ":")
    if not tables:
        raise CloudError(404, f"Not found: Dataset {name}", "notFound")
    if known.token == ON_TABLE:
        table = last_segment(str(inputs.get("tableId")))
        if f"{dataset}/tables/{table}" not in {each.path for each in tables}:
            raise CloudError(404, f"Not found: Table {name}.{table}", "notFound")
        if inputs.get("condition"):
            text = f"IAM setPolicy failed for Table {name}.{table}: Can't set conditional policy"
            raise CloudError(400, f"{text} on policy type: bigquery_tables", "badRequest")


def check_insert(store: Store, table: GivenTable) -> None:
    """Reject an insert into a table if no grant allows one to anybody.

    Raises:
        CloudError: No member has all permissions that an insert needs.
    """
    found = list(_grants(store, table))
    writers = {member for member, role, _ in found if role in _WRITERS}
    name = table.name.replace(".", ":", 1)
    if not writers:
        what = f"bigquery.tables.updateData denied on table {name}"
        text = f"Access Denied: Table {name}: Permission {what} (or it may not exist)."
        raise CloudError(403, text, "accessDenied")
    readers = {member for member, role, is_table in found if role in _SEE_DATASETS and not is_table}
    if not writers & readers:
        dataset = name.rpartition(".")[0]
        what = f"bigquery.datasets.get denied on dataset {dataset}"
        text = f"Access Denied: Dataset {dataset}: Permission {what} (or it may not exist)."
        raise CloudError(403, text, "accessDenied")


def _grants(store: Store, table: GivenTable) -> Iterator[tuple[str, str, bool]]:
    """Yield the grants that reach a table: member, role, and whether it is the table's own."""
    project, dataset, name = table.name.split(".")
    for record in store.find(ON_TABLE):
        given = record.inputs
        own = (record.project, given.get("datasetId"), last_segment(str(given.get("tableId"))))
        if own == (project, dataset, name):
            yield _principal(given.get("member")), str(given.get("role")), True
    for record in store.find(ON_DATASET):
        if (record.project, record.inputs.get("datasetId")) == (project, dataset):
            for field, prefix in _ENTITIES.items():
                if member := record.inputs.get(field):
                    yield _principal(f"{prefix}{member}"), str(record.inputs.get("role")), False
    for record in store.find(_ON_PROJECT):
        if record.inputs.get("project") == project:
            yield _principal(record.inputs.get("member")), str(record.inputs.get("role")), False


def _principal(member: object) -> str:
    """Return a member without its kind if it is an email address, which datasets keep alone."""
    return str(member).removeprefix("user:").removeprefix("serviceAccount:")
