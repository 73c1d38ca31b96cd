"""Config Sync in clusters, as a feature of the project's fleet."""

from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import gkehub
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under, user_labels

FEATURE = "configmanagement"
"""Name of the fleet feature."""


class SyncedClusterArgs(TypedDict):
    """A cluster to register with the fleet."""

    cluster_id: pulumi.Input[str]
    """`projects/P/locations/L/clusters/NAME`."""
    location: str
    """Region of the membership, which is that of the cluster."""
    membership: str
    """Name of the membership, unique in the project."""


class ConfigSyncArgs(TypedDict):
    """Inputs of `ConfigSync`."""

    clusters: Annotated[dict[str, SyncedClusterArgs], Field(min_length=1)]
    """Clusters, each under a name of your choice."""
    project: str
    """Project of the fleet and of the clusters."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the feature and memberships."""


class ConfigSync(pulumi.ComponentResource):
    """Config Sync in clusters, with automatic upgrades.

    Creates the project's only `configmanagement` feature, and a fleet membership for each cluster.
    `ModelDelivery` defines what a namespace syncs.
    """

    memberships: pulumi.Output[list[str]]
    """Names of the memberships, in the order of `clusters`."""

    def __init__(
        self, name: str, args: ConfigSyncArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ConfigSync", name, {}, opts)
        args = checked(ConfigSyncArgs, args)
        labels = user_labels(args, "delivery")
        feature = gkehub.Feature(
            name,
            labels=labels,
            location="global",
            name=FEATURE,
            project=args["project"],
            opts=under(self),
        )
        for title, cluster in args["clusters"].items():
            link = pulumi.Output.from_input(cluster["cluster_id"]).apply(_resource_link)
            member = gkehub.Membership(
                f"{name}-{title}-membership",
                endpoint={"gke_cluster": {"resource_link": link}},
                labels=labels,
                location=cluster["location"],
                membership_id=cluster["membership"],
                project=args["project"],
                opts=under(self),
            )
            gkehub.FeatureMembership(
                f"{name}-{title}",
                configmanagement={
                    "config_sync": {"enabled": True, "source_format": "unstructured"},
                    "management": "MANAGEMENT_AUTOMATIC",
                },
                feature=feature.name,
                location="global",
                membership=member.membership_id,
                membership_location=cluster["location"],
                project=args["project"],
                opts=under(self),
            )
        names = [cluster["membership"] for cluster in args["clusters"].values()]
        self.memberships = pulumi.Output.from_input(names)
        self.register_outputs({"memberships": self.memberships})


def _resource_link(cluster_id: str) -> str:
    """Return the resource link of a cluster for its membership."""
    return f"//container.googleapis.com/{cluster_id}"
