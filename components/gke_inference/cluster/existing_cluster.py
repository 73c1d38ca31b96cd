"""An existing GKE cluster, with a new service account for additional nodes."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import container

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.base.kubeconfig import kubeconfig
from gke_inference.catalogue.names import check_name
from gke_inference.settings.fields import ClusterPath

from .cluster import dns_name
from .node_account import node_account


class ExistingClusterArgs(TypedDict):
    """Inputs of `ExistingCluster`."""

    cluster: ClusterPath
    """Cluster, which must have Workload Identity, the Gateway API, the
    GCS FUSE driver and a DNS endpoint enabled."""
    node_account_id: NotRequired[str]
    """ID of the node service account. Default: `<cluster name>-nodes`."""


class ExistingCluster(pulumi.ComponentResource):
    """An existing cluster, never changed or deleted, with the outputs of `InferenceCluster`.

    It creates a node service account for additional pools and compute classes. Every preview reads
    the cluster (`container.Cluster.get`), and fails if it does not exist.
    """

    cluster_id: pulumi.Output[str]
    """`projects/P/locations/L/clusters/NAME`."""
    cluster_name: pulumi.Output[str]
    """Name of the cluster."""
    endpoint: pulumi.Output[str]
    """DNS name of the control plane."""
    kubeconfig: pulumi.Output[str]
    """For `pulumi_kubernetes.Provider`. It contains no secret."""
    location: pulumi.Output[str]
    """Region or zone of the cluster."""
    node_service_account: pulumi.Output[str]
    """Email of the node service account, known at preview."""
    workload_pool: pulumi.Output[str]
    """`PROJECT.svc.id.goog`."""

    def __init__(
        self, name: str, args: ExistingClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ExistingCluster", name, {}, opts)
        args = checked(ExistingClusterArgs, args)
        _, project, _, location, _, cluster_name = args["cluster"].split("/")
        account_id = _node_account_id(args, cluster_name)
        email, _ = node_account(name, account_id, cluster_name, project, under(self))
        cluster = container.Cluster.get(name, args["cluster"], opts=under(self))
        self.cluster_id = pulumi.Output.from_input(args["cluster"])
        self.cluster_name = pulumi.Output.from_input(cluster_name)
        self.endpoint = cluster.control_plane_endpoints_config.apply(dns_name)
        self.kubeconfig = self.endpoint.apply(lambda endpoint: kubeconfig(cluster_name, endpoint))
        self.location = pulumi.Output.from_input(location)
        self.node_service_account = email
        self.workload_pool = pulumi.Output.from_input(f"{project}.svc.id.goog")
        self.register_outputs(
            {
                "clusterId": self.cluster_id,
                "clusterName": self.cluster_name,
                "endpoint": self.endpoint,
                "kubeconfig": self.kubeconfig,
                "location": self.location,
                "nodeServiceAccount": self.node_service_account,
                "workloadPool": self.workload_pool,
            }
        )


def _node_account_id(args: ExistingClusterArgs, cluster_name: str) -> str:
    if args.get("node_account_id") is not None:
        return name_of(args, "node_account_id", "service_account")
    try:
        return check_name("service_account", f"{cluster_name}-nodes")
    except ValueError as error:
        raise pulumi.InputPropertyError("cluster", f"{error}; give 'nodeAccountId'") from error
