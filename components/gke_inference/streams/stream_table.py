"""Access of a Kafka stream's workers to the table that their answers go to."""

from typing import TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.settings.fields import TableName
from gke_inference.streams.table_grants import let_insert


class StreamTableArgs(TypedDict):
    """Inputs of `StreamTable`."""

    table: TableName
    """Existing table, `PROJECT.DATASET.TABLE`."""
    worker: pulumi.Input[str]
    """IAM member of the workers."""


class StreamTable(pulumi.ComponentResource):
    """Permissions to insert rows into an existing table of BigQuery.

    For a stream from Pub/Sub, set `results_table` of `StreamTopics` instead.
    """

    table: pulumi.Output[str]
    """The table, once the workers may insert."""

    def __init__(
        self, name: str, args: StreamTableArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:StreamTable", name, {}, opts)
        args = checked(StreamTableArgs, args)
        grants = let_insert(self, name, args["table"], args["worker"])
        made = pulumi.Output.all(*(each.urn for each in grants))
        self.table = made.apply(lambda _: args["table"])
        self.register_outputs({"table": self.table})
