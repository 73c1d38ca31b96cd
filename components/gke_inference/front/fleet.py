"""The fleet of clusters behind one gateway."""

from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import gkehub, projects
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import under, user_labels
from gke_inference.base.propagation import until_effective
from gke_inference.base.service_agents import MULTI_CLUSTER_INGRESS
from gke_inference.catalogue.problems import one_of

DISCOVERY = "multiclusterservicediscovery"
INGRESS = "multiclusteringress"
_AGENT_ROLE = "roles/container.admin"


class FleetClusterArgs(TypedDict):
    """A cluster of a `Fleet`."""

    cluster_id: pulumi.Input[str]
    """`projects/P/locations/L/clusters/NAME`."""
    location: str
    """Region of the membership, which is that of the cluster."""
    membership: str
    """Name of the membership, unique in the project."""


class FleetArgs(TypedDict):
    """Inputs of `Fleet`."""

    clusters: Annotated[dict[str, FleetClusterArgs], Field(min_length=1)]
    """Clusters of one VPC, each under a name of your choice."""
    config_cluster: str
    """Name in `clusters` of the cluster with the Gateway, its routes and its policies."""
    project: str
    """Project of the fleet and of the clusters."""
    project_number: str
    """Number of that project."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the features and memberships."""


class Fleet(pulumi.ComponentResource):
    """Clusters as members of the project's fleet, with multi-cluster gateways.

    Creates the project's only features `multiclusterservicediscovery` and `multiclusteringress`, a
    membership for each cluster, and the role of the controller in these clusters.
    """

    memberships: pulumi.Output[list[str]]
    """Names of the memberships, in the order of `clusters`."""

    def __init__(
        self, name: str, args: FleetArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:Fleet", name, {}, opts)
        args = checked(FleetArgs, args)
        clusters, config = args["clusters"], args["config_cluster"]
        if config not in clusters:
            keep([one_of("config_cluster", config, clusters)])
        labels = user_labels(args, "gateway")
        members = {
            title: gkehub.Membership(
                f"{name}-{title}-membership",
                endpoint={"gke_cluster": {"resource_link": _link(cluster["cluster_id"])}},
                labels=labels,
                location=cluster["location"],
                membership_id=cluster["membership"],
                project=args["project"],
                opts=under(self),
            )
            for title, cluster in clusters.items()
        }
        discovery = gkehub.Feature(
            f"{name}-discovery",
            labels=labels,
            location="global",
            name=DISCOVERY,
            project=args["project"],
            opts=under(self, depends_on=list(members.values())),
        )
        ingress = gkehub.Feature(
            f"{name}-ingress",
            labels=labels,
            location="global",
            name=INGRESS,
            project=args["project"],
            spec={"multiclusteringress": {"config_membership": members[config].id}},
            opts=under(self, depends_on=[discovery]),
        )
        agent = MULTI_CLUSTER_INGRESS.ensure(name, args["project"], self)
        projects.IAMMember(
            f"{name}-controller",
            member=MULTI_CLUSTER_INGRESS.member(args["project_number"]),
            project=args["project"],
            role=_AGENT_ROLE,
            opts=under(self, depends_on=[agent, ingress], hooks=until_effective(self, name)),
        )
        self.memberships = pulumi.Output.from_input(
            [cluster["membership"] for cluster in clusters.values()]
        )
        self.register_outputs({"memberships": self.memberships})


def _link(cluster_id: pulumi.Input[str]) -> pulumi.Output[str]:
    """Return the resource link of a cluster for its membership."""
    return pulumi.Output.concat("//container.googleapis.com/", cluster_id)
